#include "trireme/shm/collective.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "trireme/base/error.h"
#include "trireme/shm/copy.h"
#include "trireme/shm/process_memory.h"
#include "trireme/shm/reduce.h"
#include "trireme/shm/slices.h"

// Every collective is a short list of steps. In a step this rank makes something ready for its peers piece by piece, or
// waits for some peers and deals with each as soon as it is there, or both at once; then it publishes how far it is.
//
// all_reduce by Pull: once all ranks entered, each sums its slice of all buffers into its own buffer (nobody else reads
// that slice) and publishes each piece; whoever sees a peer's piece may overwrite its own copy of it (the peer has read
// it) with the result; having copied all, it publishes "done"; when all are done its buffer is free.
// By Push, each stores the sums of its slice into all buffers; when all are done, the result is there.
// Inline, the inputs lie in the control blocks, each rank sums all of them by itself, and nobody waits for readers.
namespace trireme::shm {
namespace {

using Action = void (*)(Collective&, const Group&);
using PieceAction = void (*)(Collective&, const Group&, uint64_t piece);
using PeerAction = void (*)(Collective&, const Group&, int peer, uint64_t piece);

enum class From { Nobody, Root, All };
enum class Until {
  Entered,
  Piece,   // each of its pieces is ready
  Done,    // it needs nothing of this collective any more
  Readers  // the same, where it may read this rank's memory; at once where it cannot
};

struct Step {
  From from = From::Nobody;
  Until until = Until::Entered;
  PeerAction each = nullptr;
  Action after = nullptr;
  bool publish_done = false;
  PieceAction make = nullptr;
};

// what the collective needs its peers for ends here
uint64_t done_with(const Collective& collective) {
  return (collective.sequence + 1) << kStepBits;
}

// ---- moving bytes --------------------------------------------------------------------------------------------------

void read_private(const Group& group, int peer, uint64_t address, std::byte* to, size_t bytes) {
  const int pid = group.members[peer].arena->pid();
  if (bytes == 0 || read_process(pid, address, to, bytes)) return;
  throw base::PeerLostError(base::text_of(group.name_of_rank(peer), " (process ", pid,
                                          ") ended while its memory was read in group \"", group.name, "\""));
}

/// `bytes` at `begin` of what `peer` shares.
void fetch(const Collective& c, const Group& group, int peer, uint64_t begin, std::byte* to, size_t bytes) {
  const Part& part = c.parts[peer];
  if (part.memory == nullptr) {
    read_private(group, peer, part.address + begin, to, bytes);
  } else if (peer == group.rank) {
    if (to != part.memory + begin && bytes > 0) std::memmove(to, part.memory + begin, bytes);
  } else {
    copy_bytes(to, part.memory + begin, bytes, c.method.streaming);
  }
}

constexpr size_t kReadBlock = 128 << 10;  // of private memory, that it stays in the cache until it is summed
constexpr size_t kPushBlock = 8 << 10;    // stays in the first-level cache until it is stored everywhere

/// The sums of `slice` over all ranks' memory, stored to `destination`, which is that of `slice` itself.
void reduce(const Collective& c, const Group& group, const Slice& slice, std::byte* destination) {
  std::vector<const std::byte*> sources;
  for (const Part& part : c.parts) {
    sources.push_back(part.memory == nullptr ? nullptr : part.memory + slice.begin);
  }
  const uint64_t element = base::size_of(c.call.dtype);
  if (!c.any_private) {
    reduce_elements(sources, destination, slice.count, c.call.dtype, c.call.reduce_op);
    return;
  }
  thread_local std::vector<std::byte> scratch;
  scratch.resize(kReadBlock * static_cast<size_t>(group.size));
  for (uint64_t begin = 0; begin < slice.bytes; begin += kReadBlock) {
    const uint64_t bytes = std::min<uint64_t>(kReadBlock, slice.bytes - begin);
    for (int peer = 0; peer < group.size; ++peer) {
      const Part& part = c.parts[peer];
      std::byte* copy = scratch.data() + kReadBlock * static_cast<size_t>(peer);
      if (part.memory == nullptr) read_private(group, peer, part.address + slice.begin + begin, copy, bytes);
      sources[peer] = part.memory == nullptr ? copy : part.memory + slice.begin + begin;
    }
    reduce_elements(sources, destination + begin, bytes / element, c.call.dtype, c.call.reduce_op);
  }
}

// ---- what the steps do ---------------------------------------------------------------------------------------------

void reduce_piece(Collective& c, const Group& group, uint64_t piece) {
  const Slice slice = piece_of(c, group, group.rank, piece);
  reduce(c, group, slice, c.parts[group.rank].memory + slice.begin);
}

void copy_piece(Collective& c, const Group& group, int peer, uint64_t piece) {
  const Slice slice = piece_of(c, group, peer, piece);
  fetch(c, group, peer, slice.begin, c.out + slice.begin, slice.bytes);
}

void reduce_slice_everywhere(Collective& c, const Group& group) {
  const Slice slice = slice_of(c, group, group.rank);
  const uint64_t element = base::size_of(c.call.dtype);
  for (uint64_t at = 0; at < slice.bytes; at += kPushBlock) {
    const uint64_t bytes = std::min<uint64_t>(kPushBlock, slice.bytes - at);
    const Slice block{slice.begin + at, bytes, bytes / element};
    std::byte* mine = c.parts[group.rank].memory + block.begin;
    reduce(c, group, block, mine);
    for (int i = 1; i < group.size; ++i) {
      copy_bytes(c.parts[(group.rank + i) % group.size].memory + block.begin, mine, bytes);
    }
  }
}

void reduce_all(Collective& c, const Group& group) {
  reduce(c, group, {0, c.out_bytes, c.call.count}, c.out);
}

void reduce_own_part(Collective& c, const Group& group) {
  reduce(c, group, {c.out_bytes * static_cast<uint64_t>(group.rank), c.out_bytes, c.call.count}, c.out);
}

void reduce_slice_at_root(Collective& c, const Group& group) {
  const Slice slice = slice_of(c, group, group.rank);
  reduce(c, group, slice, c.parts[c.call.root].memory + slice.begin);
}

// where the input was copied, the result came to the copy
void copy_own_result(Collective& c, const Group& group) {
  fetch(c, group, group.rank, 0, c.out, c.out_bytes);
}

void copy_result_at_root(Collective& c, const Group& group) {
  if (group.rank == c.call.root) copy_own_result(c, group);
}

// all_gather, gather
void copy_to_part(Collective& c, const Group& group, int peer, uint64_t) {
  fetch(c, group, peer, 0, c.out + c.call.count * static_cast<uint64_t>(peer), c.call.count);
}

void copy_whole(Collective& c, const Group& group, int peer, uint64_t) {
  fetch(c, group, peer, 0, c.out, c.call.count);
}

// scatter
void copy_from_part(Collective& c, const Group& group, int peer, uint64_t) {
  fetch(c, group, peer, c.call.count * static_cast<uint64_t>(group.rank), c.out, c.call.count);
}

void copy_own_part(Collective& c, const Group& group) {
  copy_from_part(c, group, group.rank, 0);
}

// all_to_all: what `peer` shares begins with this rank's part
void copy_part(Collective& c, const Group& group, int peer, uint64_t) {
  uint64_t begin = 0;
  for (int rank = 0; rank < peer; ++rank) begin += c.from_peer[rank];
  fetch(c, group, peer, 0, c.out + begin, c.from_peer[peer]);
}

// ---- the steps -----------------------------------------------------------------------------------------------------

constexpr Step kUntilRead{From::All, Until::Readers};
// nowhere is a collective done before all have entered, so that every rank learns of a mismatch
constexpr Step kUntilEntered{From::All, Until::Entered};
constexpr Step kTellDone{From::Nobody, Until::Entered, nullptr, nullptr, true};

constexpr Step kAllReducePull[] = {
    {From::All, Until::Entered}, {From::All, Until::Piece, copy_piece, nullptr, true, reduce_piece}, kUntilRead};
constexpr Step kAllReducePush[] = {{From::All, Until::Entered, nullptr, reduce_slice_everywhere, true},
                                   {From::All, Until::Done, nullptr, copy_own_result}};
constexpr Step kReduceAll[] = {{From::All, Until::Entered, nullptr, reduce_all, true}};
constexpr Step kAllGather[] = {{From::All, Until::Entered, copy_to_part, nullptr, true}, kUntilRead};
constexpr Step kReduceScatter[] = {{From::All, Until::Entered, nullptr, reduce_own_part, true}, kUntilRead};
constexpr Step kAllToAll[] = {{From::All, Until::Entered, copy_part, nullptr, true}, kUntilRead};
constexpr Step kBarrier[] = {{From::All, Until::Entered, nullptr, nullptr, true}};
constexpr Step kReduce[] = {{From::All, Until::Entered, nullptr, reduce_slice_at_root, true},
                            {From::All, Until::Done, nullptr, copy_result_at_root}};
constexpr Step kTell[] = {kTellDone, kUntilEntered};

constexpr Step kBroadcastRoot[] = {kTellDone, kUntilEntered, kUntilRead};
constexpr Step kBroadcastOther[] = {{From::Root, Until::Entered, copy_whole, nullptr, true}, kUntilEntered};
constexpr Step kScatterRoot[] = {
    {From::Nobody, Until::Entered, nullptr, copy_own_part, true}, kUntilEntered, kUntilRead};
constexpr Step kScatterOther[] = {{From::Root, Until::Entered, copy_from_part, nullptr, true}, kUntilEntered};
constexpr Step kGatherRoot[] = {{From::All, Until::Entered, copy_to_part, nullptr, true}};
constexpr Step kGatherOther[] = {kTellDone, kUntilEntered, {From::Root, Until::Readers}};

// push and pull begin with the same step, after which it is known where all ranks' bytes lie
std::span<const Step> steps_of(const Collective& collective, int rank) {
  const Call& call = collective.call;
  const Algorithm algorithm = collective.method.algorithm;
  const bool root = rank == call.root;
  const auto either = [&](std::span<const Step> at_root, std::span<const Step> other) {
    return root ? at_root : other;
  };
  switch (call.operation) {
    case Operation::AllReduce:
      if (algorithm == Algorithm::Inline) return kReduceAll;
      return algorithm == Algorithm::Push && !collective.any_private ? std::span<const Step>(kAllReducePush)
                                                                     : std::span<const Step>(kAllReducePull);
    case Operation::AllGather:
      return kAllGather;
    case Operation::ReduceScatter:
      return kReduceScatter;
    case Operation::Broadcast:
      return either(kBroadcastRoot, kBroadcastOther);
    case Operation::Reduce:
      if (algorithm == Algorithm::Inline) return either(kReduceAll, kTell);
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

bool is_read_by_peers(const Collective& collective) {
  return collective.where == Where::Arena || collective.where == Where::Private;
}

bool waits_for(const Collective& collective, const Step& step, int peer) {
  if (step.until == Until::Readers && !is_read_by_peers(collective)) return false;
  return step.from == From::All || (step.from == From::Root && peer == collective.call.root);
}

uint64_t pieces_in(const Collective& collective, const Group& group, const Step& step) {
  return step.until == Until::Piece ? pieces_of(collective, group) : 1;
}

// how many pieces of `peer` this step can deal with
uint64_t ready(const Collective& collective, const Group& group, const Step& step, int peer) {
  const bool own = peer == group.rank;
  if (step.until == Until::Entered) return own || collective.parts[peer].entered ? 1 : 0;
  if (own) return step.until == Until::Piece ? collective.made : 1;
  const uint64_t progress = group.members[peer].block->progress.load();
  if (progress >= done_with(collective)) return pieces_in(collective, group, step);
  if (step.until != Until::Piece || progress >> kStepBits != collective.sequence) return 0;
  return progress & ((1 << kStepBits) - 1);
}

// returns whether the step needs no more of any peer
bool take_what_is_ready(Collective& collective, const Group& group, const Step& step, bool& moved) {
  const uint64_t pieces = pieces_in(collective, group, step);
  bool all = true;
  // each rank begins with its neighbour, so that not all read from one at a time; with itself first, as in-place
  // buffers demand
  for (int i = 0; i < group.size; ++i) {
    const int peer = (group.rank + i) % group.size;
    Part& part = collective.parts[peer];
    if (part.taken == pieces || !waits_for(collective, step, peer)) continue;
    for (const uint64_t until = ready(collective, group, step, peer); part.taken < until; ++part.taken) {
      if (step.each != nullptr) step.each(collective, group, peer, part.taken);
      moved = true;
    }
    all &= part.taken == pieces;
  }
  return all;
}

bool finish_step(Collective& collective, const Group& group, const Step& step, bool& moved) {
  bool all = false;
  const uint64_t to_make = step.make == nullptr ? 0 : pieces_in(collective, group, step);
  do {
    if (collective.made < to_make) {
      step.make(collective, group, collective.made++);
      group.publish_progress(collective.sequence << kStepBits | collective.made);
      moved = true;
    }
    all = take_what_is_ready(collective, group, step, moved);
  } while (collective.made < to_make);
  if (!all) return false;
  if (step.after != nullptr) step.after(collective, group);
  if (step.publish_done) group.publish_progress(done_with(collective));
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
  if (!collective.published) return false;
  // the list may become known in the first step only
  while (collective.step < steps_of(collective, group.rank).size()) {
    if (!finish_step(collective, group, steps_of(collective, group.rank)[collective.step], moved)) return false;
    ++collective.step;
    for (Part& part : collective.parts) part.taken = 0;
    moved = true;
  }
  return true;
}

std::vector<int> awaited(const Collective& collective, const Group& group) {
  std::vector<int> peers;
  const auto steps = steps_of(collective, group.rank);
  if (!collective.published || collective.step >= steps.size()) return peers;
  const Step& step = steps[collective.step];
  for (int peer = 0; peer < group.size; ++peer) {
    if (!waits_for(collective, step, peer)) continue;
    const uint64_t taken = collective.parts[peer].taken;
    if (taken < pieces_in(collective, group, step) && ready(collective, group, step, peer) <= taken) {
      peers.push_back(peer);
    }
  }
  return peers;
}

}  // namespace trireme::shm
