#include "trireme/mesh/mesh.h"

#include <cstdint>
#include <initializer_list>
#include <iomanip>
#include <sstream>

#include "trireme/base/error.h"

namespace trireme::mesh {
namespace {

// A group of an axis: `size` ranks, `stride` apart. That it is always so follows from the order of the axes.
struct Lattice {
  int stride;
  int size;
};

void require_positive(const char* name, int value) {
  if (value < 1) {
    throw base::ConfigError(base::text_of("parallel size ", name, " must be at least 1; it is ", value));
  }
}

void require_positive(const Degrees& d) {
  require_positive("tp", d.tp);
  require_positive("cp", d.cp);
  require_positive("dp", d.dp);
  require_positive("pp", d.pp);
  require_positive("ep", d.ep);
  require_positive("etp", d.etp);
}

void require_world(int world_size) {
  if (world_size < 1) throw base::ConfigError(base::text_of("world size must be at least 1; it is ", world_size));
}

// Products are taken in 64 bits and saturate, so that absurd degrees end in an error and not in a small number.
int64_t product(std::initializer_list<int> factors) {
  constexpr int64_t limit = int64_t{1} << 40;
  int64_t result = 1;
  for (int factor : factors) {
    result *= factor;
    if (result > limit) return limit;
  }
  return result;
}

void require_divides(const char* names, int64_t block, int world_size) {
  if (world_size % block == 0) return;
  const int64_t below = world_size / block * block;
  const int64_t above = below + block;
  std::string nearest = below > 0 ? base::text_of(below, " or ", above) : base::text_of(above);
  throw base::ConfigError(base::text_of("world size ", world_size, " is not divisible by ", names, " = ", block,
                                        "; the nearest world size is ", nearest));
}

Lattice lattice_of(const Mesh& mesh, std::string_view axis) {
  const Degrees& d = mesh.degrees();
  if (axis == "world") return {1, mesh.world_size()};
  if (axis == "tp") return {1, d.tp};
  if (axis == "cp") return {d.tp, d.cp};
  if (axis == "dp") return {d.tp * d.cp, d.dp};
  if (axis == "dp_cp") return {d.tp, d.cp * d.dp};  // cp and dp are neighbours in the order, so both are one lattice
  if (axis == "pp") return {mesh.world_size() / d.pp, d.pp};
  if (axis == "etp") return {1, d.etp};
  if (axis == "ep") return {d.etp, d.ep};
  if (axis == "edp") return {d.etp * d.ep, mesh.edp()};
  TRIREME_CHECK(false && "axis is known", "axis '", axis, "'");
  return {1, 1};
}

std::vector<int> members(Lattice lattice, int first) {
  std::vector<int> result(static_cast<size_t>(lattice.size));
  for (int i = 0; i < lattice.size; ++i) result[static_cast<size_t>(i)] = first + i * lattice.stride;
  return result;
}

}  // namespace

Degrees with_world_size(Degrees degrees, int world_size) {
  degrees.dp = 1;
  require_positive(degrees);
  require_world(world_size);
  const int64_t block = product({degrees.tp, degrees.cp, degrees.pp});
  require_divides("tp*cp*pp", block, world_size);
  degrees.dp = static_cast<int>(world_size / block);
  return degrees;
}

Mesh::Mesh(const Degrees& degrees, int world_size) : degrees_(degrees), world_size_(world_size) {
  require_positive(degrees);
  require_world(world_size);
  const Degrees& d = degrees;
  require_divides("tp*cp*pp", product({d.tp, d.cp, d.pp}), world_size);
  const int64_t all = product({d.tp, d.cp, d.dp, d.pp});
  if (all != world_size) {
    throw base::ConfigError(base::text_of("tp*cp*dp*pp = ", d.tp, "*", d.cp, "*", d.dp, "*", d.pp, " = ", all,
                                          " is not the world size ", world_size, "; dp would have to be ",
                                          world_size / product({d.tp, d.cp, d.pp})));
  }
  const int64_t expert_block = product({d.etp, d.ep, d.pp});
  require_divides("etp*ep*pp", expert_block, world_size);
  edp_ = static_cast<int>(world_size / expert_block);
}

Coordinate Mesh::coordinate(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < world_size_, "rank ", rank, " world size ", world_size_);
  const Degrees& d = degrees_;
  return {rank % d.tp, rank / d.tp % d.cp, rank / (d.tp * d.cp) % d.dp, rank / (d.tp * d.cp * d.dp)};
}

ExpertCoordinate Mesh::expert_coordinate(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < world_size_, "rank ", rank, " world size ", world_size_);
  const Degrees& d = degrees_;
  return {rank % d.etp, rank / d.etp % d.ep, rank / (d.etp * d.ep) % edp_, rank / (d.etp * d.ep * edp_)};
}

int Mesh::rank_of(const Coordinate& c) const {
  const Degrees& d = degrees_;
  TRIREME_CHECK(
      c.tp >= 0 && c.tp < d.tp && c.cp >= 0 && c.cp < d.cp && c.dp >= 0 && c.dp < d.dp && c.pp >= 0 && c.pp < d.pp,
      "tp ", c.tp, " cp ", c.cp, " dp ", c.dp, " pp ", c.pp);
  return c.tp + d.tp * (c.cp + d.cp * (c.dp + d.dp * c.pp));
}

int Mesh::rank_of(const ExpertCoordinate& c) const {
  const Degrees& d = degrees_;
  TRIREME_CHECK(
      c.etp >= 0 && c.etp < d.etp && c.ep >= 0 && c.ep < d.ep && c.edp >= 0 && c.edp < edp_ && c.pp >= 0 && c.pp < d.pp,
      "etp ", c.etp, " ep ", c.ep, " edp ", c.edp, " pp ", c.pp);
  return c.etp + d.etp * (c.ep + d.ep * (c.edp + edp_ * c.pp));
}

int Mesh::group_size(std::string_view axis) const {
  return lattice_of(*this, axis).size;
}

std::vector<std::vector<int>> Mesh::groups(std::string_view axis) const {
  const Lattice lattice = lattice_of(*this, axis);
  const int block = lattice.stride * lattice.size;
  std::vector<std::vector<int>> result;
  result.reserve(static_cast<size_t>(world_size_ / lattice.size));
  for (int start = 0; start < world_size_; start += block) {
    for (int offset = 0; offset < lattice.stride; ++offset) result.push_back(members(lattice, start + offset));
  }
  return result;
}

std::vector<int> Mesh::group_of(std::string_view axis, int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < world_size_, "rank ", rank, " world size ", world_size_);
  const Lattice lattice = lattice_of(*this, axis);
  return members(lattice, rank - index_in(axis, rank) * lattice.stride);
}

int Mesh::index_in(std::string_view axis, int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < world_size_, "rank ", rank, " world size ", world_size_);
  const Lattice lattice = lattice_of(*this, axis);
  return rank / lattice.stride % lattice.size;
}

std::string Mesh::describe() const {
  constexpr int most_rows = 64;
  const Degrees& d = degrees_;
  std::ostringstream out;
  out << "world " << world_size_ << " = tp " << d.tp << " x cp " << d.cp << " x dp " << d.dp << " x pp " << d.pp
      << "; experts: etp " << d.etp << " x ep " << d.ep << " x edp " << edp_ << " x pp " << d.pp << "\n";
  out << "  rank    tp    cp    dp    pp |  etp    ep   edp\n";
  for (int rank = 0; rank < world_size_ && rank < most_rows; ++rank) {
    const Coordinate c = coordinate(rank);
    const ExpertCoordinate e = expert_coordinate(rank);
    for (int value : {rank, c.tp, c.cp, c.dp, c.pp}) out << std::setw(6) << value;
    out << " |" << std::setw(5) << e.etp << std::setw(6) << e.ep << std::setw(6) << e.edp << "\n";
  }
  if (world_size_ > most_rows) out << "  and " << world_size_ - most_rows << " more ranks\n";
  for (std::string_view axis : axis_names) {
    if (axis == "world" || group_size(axis) == 1) continue;
    const auto all = groups(axis);
    out << axis << ":";
    for (size_t i = 0; i < all.size() && i < 8; ++i) {
      out << " [";
      for (size_t j = 0; j < all[i].size() && j < 16; ++j) out << (j ? "," : "") << all[i][j];
      out << (all[i].size() > 16 ? ",..]" : "]");
    }
    if (all.size() > 8) out << " and " << all.size() - 8 << " more";
    out << "\n";
  }
  return out.str();
}

}  // namespace trireme::mesh
