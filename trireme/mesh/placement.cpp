#include "trireme/mesh/placement.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::mesh {
namespace {

size_t shard_dimension(std::span<const int64_t> shape, const Placement& placement) {
  if (placement.dim < 0 || static_cast<size_t>(placement.dim) >= shape.size()) {
    throw base::ConfigError(
        base::text_of("a tensor with ", shape.size(), " dimensions cannot be sharded on dimension ", placement.dim));
  }
  return static_cast<size_t>(placement.dim);
}

}  // namespace

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return "Replicate";
    case Placement::Kind::Shard:
      return base::text_of("Shard(", placement.dim, ")");
    case Placement::Kind::Partial:
      return "Partial";
  }
  return "";
}

Slice slice_of(int64_t extent, int parts, int index) {
  TRIREME_CHECK(extent >= 0 && parts >= 1 && index >= 0 && index < parts, "extent ", extent, " parts ", parts,
                " index ", index);
  const int64_t small = extent / parts;
  const int64_t larger_parts = extent % parts;
  return {index * small + std::min<int64_t>(index, larger_parts), small + (index < larger_parts ? 1 : 0)};
}

std::vector<int64_t> local_shape(std::span<const int64_t> global_shape, const Placement& placement, int axis_size,
                                 int index) {
  std::vector<int64_t> shape(global_shape.begin(), global_shape.end());
  if (placement.kind == Placement::Kind::Shard) {
    const size_t dim = shard_dimension(global_shape, placement);
    shape[dim] = slice_of(shape[dim], axis_size, index).size;
  }
  return shape;
}

std::vector<int64_t> local_offset(std::span<const int64_t> global_shape, const Placement& placement, int axis_size,
                                  int index) {
  std::vector<int64_t> offset(global_shape.size(), 0);
  if (placement.kind == Placement::Kind::Shard) {
    const size_t dim = shard_dimension(global_shape, placement);
    offset[dim] = slice_of(global_shape[dim], axis_size, index).begin;
  }
  return offset;
}

}  // namespace trireme::mesh
