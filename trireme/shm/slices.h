#pragma once

#include <cstdint>

#include "trireme/shm/collective.h"

// Which elements of a reduction are whose, and which bytes of them go together.
namespace trireme::shm {

struct Slice {
  uint64_t begin;  // bytes
  uint64_t bytes;
  uint64_t count;
};

/// The elements that `rank` reduces. Starts on multiples of 64 elements, so that no two ranks write to one cache line;
/// with fewer elements some are empty.
Slice slice_of(const Collective& collective, const Group& group, int rank);

/// How many pieces each slice has, at least 1; equal on all ranks.
uint64_t pieces_of(const Collective& collective, const Group& group);

/// Piece `piece` of the slice of `rank`.
Slice piece_of(const Collective& collective, const Group& group, int rank, uint64_t piece);

}  // namespace trireme::shm
