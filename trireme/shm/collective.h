#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/shm/algorithm.h"
#include "trireme/shm/group.h"
#include "trireme/shm/operation.h"

namespace trireme::shm {

/// What all ranks must agree on.
struct Call {
  Operation operation = Operation::Barrier;
  base::DType dtype = base::DType::U8;
  ReduceOp reduce_op = ReduceOp::Sum;
  int root = -1;       // in the group; -1 where the operation has none
  uint64_t count = 0;  // elements in reductions, else bytes; 0 for all_to_all, whose parts are compared pair by pair
  std::string label;   // of a barrier

  bool operator==(const Call&) const = default;
};

/// "all_reduce(1000 F32, sum)", "broadcast(4000 bytes, root 2)".
std::string describe(const Call& call, const Group& group);

/// One rank's side of a collective, as this rank sees it.
struct Part {
  bool entered = false;
  std::byte* memory = nullptr;  // its bytes, where this process maps them
  uint64_t address = 0;         // else of them in its process
  uint64_t taken = 0;           // pieces of it that the present step has dealt with
};

/// A collective of this rank on its way.
struct Collective {
  Call call;
  Method method;
  uint64_t sequence = 0;

  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  uint64_t shared_bytes = 0;    // of `in`: what the peers read
  uint64_t out_bytes = 0;       // what is written at `out`
  bool copy_input = false;      // `in` is written before the peers have read it
  bool peers_write = false;     // into what is shared: only as the oldest, as they may come at once
  bool in_arena = false;        // what is shared must lie in the arena
  std::vector<size_t> to_peer;  // all_to_all's parts in bytes, [size]
  std::vector<size_t> from_peer;

  Where where = Where::Nowhere;  // this rank's bytes
  std::byte* bounce = nullptr;   // block of the arena that holds the input if it was copied there
  bool published = false;        // the peers can see it
  bool any_private = false;      // some rank's bytes lie in private memory
  std::vector<Part> parts;       // [size], this rank's included
  size_t step = 0;
  uint64_t made = 0;  // pieces of its slice that this rank has reduced
};

/// Moves `collective`, which is the oldest of its rank, as far as its peers allow; nothing waits. Returns whether it is
/// done; sets `moved` where anything happened. Throws CommError (U8 overflow), PeerLostError.
bool advance(Collective& collective, const Group& group, bool& moved);

/// The peers that it waits for now.
std::vector<int> awaited(const Collective& collective, const Group& group);

}  // namespace trireme::shm
