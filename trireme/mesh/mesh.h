#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/mesh/degrees.h"

// Which ranks belong together. Mesh alone turns ranks into coordinates and groups; everything else gets them from it.
//
// Two views of the same ranks, both in Megatron's order (fastest axis first):
//
//   dense:   rank = tp + TP · (cp + CP · (dp + DP · pp))
//   expert:  rank = etp + ETP · (ep + EP · (edp + EDP · pp))
//
// pp is slowest in both, so that both views have the same pipeline groups. Dense gradients are averaged over "dp_cp",
// gradients of experts over "edp".
namespace trireme::mesh {

/// Position of a rank in the dense view.
struct Coordinate {
  int tp = 0;
  int cp = 0;
  int dp = 0;
  int pp = 0;

  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

/// Position of a rank in the expert view.
struct ExpertCoordinate {
  int etp = 0;
  int ep = 0;
  int edp = 0;
  int pp = 0;

  friend bool operator==(const ExpertCoordinate&, const ExpertCoordinate&) = default;
};

/// `degrees` with dp = world_size / (tp · cp · pp).
/// Throws base::ConfigError that names the numbers and the nearest world sizes that fit.
Degrees with_world_size(Degrees degrees, int world_size);

/// Every name that Mesh::groups() takes.
inline constexpr std::array<std::string_view, 9> axis_names = {"world", "tp",  "cp", "dp", "pp",
                                                               "dp_cp", "etp", "ep", "edp"};

/// Immutable; copy it freely.
class Mesh {
 public:
  /// Throws base::ConfigError where a degree is below 1, tp · cp · dp · pp is not world_size, or etp · ep · pp does not
  /// divide it.
  Mesh(const Degrees& degrees, int world_size);

  int world_size() const { return world_size_; }
  const Degrees& degrees() const { return degrees_; }
  int edp() const { return edp_; }

  Coordinate coordinate(int rank) const;
  ExpertCoordinate expert_coordinate(int rank) const;
  int rank_of(const Coordinate& coordinate) const;
  int rank_of(const ExpertCoordinate& coordinate) const;

  /// Number of ranks in each group of `axis`.
  int group_size(std::string_view axis) const;

  /// All groups of `axis`: each rank is in exactly one; members ascend, and so do the first members of the groups.
  /// "dp_cp" joins the ranks that hold the same dense parameters (cp fastest).
  std::vector<std::vector<int>> groups(std::string_view axis) const;

  /// The group of `axis` that `rank` is in.
  std::vector<int> group_of(std::string_view axis, int rank) const;

  /// Position of `rank` in group_of(axis, rank).
  int index_in(std::string_view axis, int rank) const;

  /// A table for people: the sizes, one line a rank (64 at most), then the groups with more than one member.
  std::string describe() const;

 private:
  Degrees degrees_;
  int world_size_;
  int edp_;
};

}  // namespace trireme::mesh
