#include "trireme/shm/slices.h"

#include <algorithm>

namespace trireme::shm {
namespace {

constexpr uint64_t kUnit = 64;  // elements

uint64_t divided(uint64_t count, uint64_t parts) {
  return (count + parts - 1) / parts;
}

// elements in each slice but the last ones
uint64_t slice_elements(const Collective& collective, const Group& group) {
  return divided(divided(collective.call.count, static_cast<uint64_t>(group.size)), kUnit) * kUnit;
}

Slice elements(const Collective& collective, uint64_t begin, uint64_t end) {
  const uint64_t size = base::size_of(collective.call.dtype);
  return {begin * size, (end - begin) * size, end - begin};
}

}  // namespace

Slice slice_of(const Collective& collective, const Group& group, int rank) {
  const uint64_t count = collective.call.count;
  const uint64_t each = slice_elements(collective, group);
  const uint64_t begin = std::min(count, each * static_cast<uint64_t>(rank));
  return elements(collective, begin, std::min(count, begin + each));
}

uint64_t pieces_of(const Collective& collective, const Group& group) {
  const uint64_t bytes = slice_elements(collective, group) * base::size_of(collective.call.dtype);
  const uint64_t size = std::max<uint64_t>(collective.method.piece_bytes, 1);
  return std::clamp<uint64_t>(bytes / size + (bytes % size != 0 ? 1 : 0), 1, kMostPieces);
}

Slice piece_of(const Collective& collective, const Group& group, int rank, uint64_t piece) {
  const uint64_t count = collective.call.count;
  const uint64_t slice = slice_elements(collective, group);
  const uint64_t each = divided(divided(slice, pieces_of(collective, group)), kUnit) * kUnit;
  const uint64_t slice_begin = std::min(count, slice * static_cast<uint64_t>(rank));
  const uint64_t slice_end = std::min(count, slice_begin + slice);
  const uint64_t begin = std::min(slice_end, slice_begin + each * piece);
  return elements(collective, begin, std::min(slice_end, begin + each));
}

}  // namespace trireme::shm
