#include "trireme/shm/collective.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/shm/reduce.h"

// Every collective is a short list of steps. A step waits for some peers, deals with each of them as soon as it is
// there, then publishes how far this rank is. All data is pulled, except in reduce, whose slices are summed straight
// into the root's memory.
//
// all_reduce: once all ranks entered, each sums its slice of all buffers into its own buffer (nobody else reads that
// slice) and publishes "piece"; whoever sees a peer's "piece" may overwrite its own copy of that peer's slice (the peer
// has read it) with the result; having copied all, it publishes "done"; when all are done its buffer is free.
namespace trireme::shm {
namespace {

using Action = void (*)(Collective&, const Group&);
using PeerAction = void (*)(Collective&, const Group&, int peer);

enum class From { Nobody, Root, All };
enum class Until { Entered, Piece, Done };
enum class Publish { Nothing, Piece, Done };

struct Step {
  From from = From::Nobody;
  Until until = Until::Entered;
  PeerAction each = nullptr;
  Action after = nullptr;
  Publish publish = Publish::Nothing;
};

uint64_t piece_of(const Collective& collective) {
  return collective.sequence << 2 | 1;
}
uint64_t done_with(const Collective& collective) {
  return (collective.sequence + 1) << 2;
}

// ---- what the steps do ---------------------------------------------------------------------------------------------

struct Slice {
  uint64_t begin;  // bytes
  uint64_t bytes;
  uint64_t count;
};

// starts on multiples of 64 elements, so that no two ranks write to one cache line
Slice slice_of(const Collective& collective, const Group& group, int rank) {
  const uint64_t count = collective.call.count;
  const uint64_t size = base::size_of(collective.call.dtype);
  const auto ranks = static_cast<uint64_t>(group.size);
  const uint64_t each = ((count + ranks - 1) / ranks + 63) / 64 * 64;
  const uint64_t begin = std::min(count, each * static_cast<uint64_t>(rank));
  const uint64_t end = std::min(count, begin + each);
  return {begin * size, (end - begin) * size, end - begin};
}

void reduce(const Collective& collective, uint64_t begin, uint64_t count, std::byte* destination) {
  std::vector<const std::byte*> sources;
  for (const std::byte* memory : collective.shared) sources.push_back(memory + begin);
  reduce_elements(sources, destination, count, collective.call.dtype, collective.call.reduce_op);
}

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

void reduce_own_slice(Collective& c, const Group& group) {
  const Slice slice = slice_of(c, group, group.rank);
  reduce(c, slice.begin, slice.count, c.shared[group.rank] + slice.begin);
}

void copy_slice(Collective& c, const Group& group, int peer) {
  const Slice slice = slice_of(c, group, peer);
  copy_bytes(c.out + slice.begin, c.shared[peer] + slice.begin, slice.bytes);
}

void reduce_own_part(Collective& c, const Group& group) {
  reduce(c, c.out_bytes * static_cast<uint64_t>(group.rank), c.call.count, c.out);
}

void reduce_slice_at_root(Collective& c, const Group& group) {
  const Slice slice = slice_of(c, group, group.rank);
  reduce(c, slice.begin, slice.count, c.shared[c.call.root] + slice.begin);
}

void copy_result_at_root(Collective& c, const Group& group) {
  if (group.rank == c.call.root) copy_bytes(c.out, c.shared[group.rank], c.out_bytes);
}

// all_gather, gather
void copy_to_part(Collective& c, const Group&, int peer) {
  copy_bytes(c.out + c.call.count * static_cast<uint64_t>(peer), c.shared[peer], c.call.count);
}

void copy_whole(Collective& c, const Group&, int peer) {
  copy_bytes(c.out, c.shared[peer], c.call.count);
}

// scatter
void copy_from_part(Collective& c, const Group& group, int peer) {
  copy_bytes(c.out, c.shared[peer] + c.call.count * static_cast<uint64_t>(group.rank), c.call.count);
}

void copy_own_part(Collective& c, const Group& group) {
  copy_from_part(c, group, group.rank);
}

// all_to_all: shared[peer] already points at this rank's part
void copy_part(Collective& c, const Group&, int peer) {
  uint64_t begin = 0;
  for (int rank = 0; rank < peer; ++rank) begin += c.from_peer[rank];
  copy_bytes(c.out + begin, c.shared[peer], c.from_peer[peer]);
}

// ---- the steps -----------------------------------------------------------------------------------------------------

constexpr Step kUntilAllDone{From::All, Until::Done};

constexpr Step kAllReduce[] = {{From::All, Until::Entered, nullptr, reduce_own_slice, Publish::Piece},
                               {From::All, Until::Piece, copy_slice, nullptr, Publish::Done},
                               kUntilAllDone};
constexpr Step kAllGather[] = {{From::All, Until::Entered, copy_to_part, nullptr, Publish::Done}, kUntilAllDone};
constexpr Step kReduceScatter[] = {{From::All, Until::Entered, nullptr, reduce_own_part, Publish::Done}, kUntilAllDone};
constexpr Step kAllToAll[] = {{From::All, Until::Entered, copy_part, nullptr, Publish::Done}, kUntilAllDone};
constexpr Step kBarrier[] = {{From::All, Until::Entered, nullptr, nullptr, Publish::Done}};
constexpr Step kReduce[] = {{From::All, Until::Entered, nullptr, reduce_slice_at_root, Publish::Done},
                            {From::All, Until::Done, nullptr, copy_result_at_root}};

constexpr Step kBroadcastRoot[] = {{From::Nobody, Until::Entered, nullptr, nullptr, Publish::Done}, kUntilAllDone};
constexpr Step kBroadcastOther[] = {{From::Root, Until::Entered, copy_whole, nullptr, Publish::Done}};
constexpr Step kScatterRoot[] = {{From::Nobody, Until::Entered, nullptr, copy_own_part, Publish::Done}, kUntilAllDone};
constexpr Step kScatterOther[] = {{From::Root, Until::Entered, copy_from_part, nullptr, Publish::Done}};
constexpr Step kGatherRoot[] = {{From::All, Until::Entered, copy_to_part, nullptr, Publish::Done}};
constexpr Step kGatherOther[] = {{From::Nobody, Until::Entered, nullptr, nullptr, Publish::Done},
                                 {From::Root, Until::Done}};

std::span<const Step> steps_of(const Call& call, int rank) {
  const bool root = rank == call.root;
  const auto either = [&](std::span<const Step> at_root, std::span<const Step> other) {
    return root ? at_root : other;
  };
  switch (call.operation) {
    case Operation::AllReduce:
      return kAllReduce;
    case Operation::AllGather:
      return kAllGather;
    case Operation::ReduceScatter:
      return kReduceScatter;
    case Operation::Broadcast:
      return either(kBroadcastRoot, kBroadcastOther);
    case Operation::Reduce:
      return kReduce;
    case Operation::Gather:
      return either(kGatherRoot, kGatherOther);
    case Operation::Scatter:
      return either(kScatterRoot, kScatterOther);
    case Operation::AllToAll:
      return kAllToAll;
    case Operation::Barrier:
      return kBarrier;
    case Operation::Send:
    case Operation::Recv:
      break;
  }
  TRIREME_CHECK(false, "operation ", name_of(call.operation));
  return {};
}

bool is_there(const Collective& collective, const Group& group, const Step& step, int peer) {
  if (peer == group.rank) return true;
  if (step.until == Until::Entered) return collective.entered[peer];
  const uint64_t needed = step.until == Until::Piece ? piece_of(collective) : done_with(collective);
  return group.members[peer].block->progress.load() >= needed;
}

bool waits_for(const Collective& collective, const Step& step, int peer) {
  return step.from == From::All || (step.from == From::Root && peer == collective.call.root);
}

bool finish_step(Collective& collective, const Group& group, const Step& step, bool& moved) {
  bool all = true;
  // each rank begins with its neighbour, so that not all read from one at a time; with itself first, as in-place
  // buffers demand
  for (int i = 0; i < group.size; ++i) {
    const int peer = (group.rank + i) % group.size;
    if (collective.taken[peer] || !waits_for(collective, step, peer)) continue;
    if (!is_there(collective, group, step, peer)) {
      all = false;
      continue;
    }
    if (step.each != nullptr) step.each(collective, group, peer);
    collective.taken[peer] = true;
    moved = true;
  }
  if (!all) return false;
  if (step.after != nullptr) step.after(collective, group);
  if (step.publish == Publish::Piece) group.publish_progress(piece_of(collective));
  if (step.publish == Publish::Done) group.publish_progress(done_with(collective));
  return true;
}

}  // namespace

std::string describe(const Call& call, const Group& group) {
  std::string text(name_of(call.operation));
  switch (call.operation) {
    case Operation::AllReduce:
    case Operation::ReduceScatter:
    case Operation::Reduce:
      text += base::text_of("(", call.count, " ", base::name_of(call.dtype), ", ", name_of(call.reduce_op));
      break;
    case Operation::Barrier:
      return call.label.empty() ? text + "()" : text + "(\"" + call.label + "\")";
    case Operation::AllToAll:
      return text + "()";
    default:
      text += base::text_of("(", call.count, " bytes");
  }
  if (call.root >= 0) text += base::text_of(", root ", group.global_ranks[call.root]);
  return text + ")";
}

bool advance(Collective& collective, const Group& group, bool& moved) {
  const auto steps = steps_of(collective.call, group.rank);
  if (!collective.published) return false;
  while (collective.step < steps.size()) {
    if (!finish_step(collective, group, steps[collective.step], moved)) return false;
    ++collective.step;
    collective.taken.assign(collective.taken.size(), false);
    moved = true;
  }
  return true;
}

std::vector<int> awaited(const Collective& collective, const Group& group) {
  std::vector<int> peers;
  const auto steps = steps_of(collective.call, group.rank);
  if (collective.step >= steps.size()) return peers;
  const Step& step = steps[collective.step];
  for (int peer = 0; peer < group.size; ++peer) {
    const bool waits = collective.published && waits_for(collective, step, peer) && !collective.taken[peer];
    if (waits && !is_there(collective, group, step, peer)) peers.push_back(peer);
  }
  return peers;
}

}  // namespace trireme::shm
