#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::mesh {

/// How a global tensor lies on the members of one axis (the three placements of PyTorch's DTensor).
struct Placement {
  enum class Kind {
    Replicate,  ///< every member holds the whole tensor
    Shard,      ///< each member holds a contiguous slice of dimension `dim`
    Partial     ///< each member holds a whole-shaped summand; the tensor is the sum over the members
  };
  Kind kind = Kind::Replicate;
  int dim = 0;  ///< of Shard: 0 <= dim < rank of the tensor

  static Placement replicate() { return {}; }
  static Placement shard(int dim) { return {Kind::Shard, dim}; }
  static Placement partial() { return {Kind::Partial, 0}; }

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// "Replicate", "Shard(0)" or "Partial".
std::string to_string(const Placement& placement);

/// A contiguous part [begin, begin + size) of `0 .. extent`.
struct Slice {
  int64_t begin = 0;
  int64_t size = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Part `index` of `extent` elements cut into `parts`. The one rule of uneven splits: sizes differ by at most 1 and the
/// larger parts come first (30 over 4 = 8, 8, 7, 7); parts beyond the extent are empty. (torch.chunk, which cuts
/// 10 over 4 as 3, 3, 3, 1, is not followed.)
Slice slice_of(int64_t extent, int parts, int index);

/// Shape of what member `index` of an axis of `axis_size` members holds.
/// Throws base::ConfigError where Shard's dim is not a dimension of the tensor.
std::vector<int64_t> local_shape(std::span<const int64_t> global_shape, const Placement& placement, int axis_size,
                                 int index);

/// Global index, per dimension, of that member's first element.
std::vector<int64_t> local_offset(std::span<const int64_t> global_shape, const Placement& placement, int axis_size,
                                  int index);

}  // namespace trireme::mesh
