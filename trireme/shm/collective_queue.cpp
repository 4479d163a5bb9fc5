#include "trireme/shm/collective_queue.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/shm/copy.h"

namespace trireme::shm {
namespace {

Call call_in(const Slot& slot) {
  return {slot.operation, slot.dtype, slot.reduce_op, slot.root, slot.count, slot.labelled ? slot.label : ""};
}

// call_in(a) == call_in(b), without making strings
bool same_call(const Slot& a, const Slot& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.reduce_op == b.reduce_op && a.root == b.root &&
         a.count == b.count && a.labelled == b.labelled && (!a.labelled || std::strcmp(a.label, b.label) == 0);
}

bool overlap(const std::byte* a, uint64_t a_bytes, const std::byte* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

// a slot is used again once every rank has compared what was in it
uint64_t slots_free_until(const Group& group) {
  uint64_t least = UINT64_MAX;
  for (const Member& member : group.members) least = std::min(least, member.block->checked.load());
  return least + kSlots;
}

// an inline area once every rank is done with the collective that used it
uint64_t inline_free_until(const Group& group) {
  uint64_t least = UINT64_MAX;
  for (const Member& member : group.members) least = std::min(least, member.block->progress.load() >> kStepBits);
  return least + kInlineSlots;
}

bool goes_inline(const Collective& collective) {
  return collective.method.algorithm == Algorithm::Inline && collective.shared_bytes <= kInlineBytes &&
         !collective.in_arena;
}

// all ranks that have entered, those with the same call together
[[noreturn]] void throw_mismatch(uint64_t sequence, const Group& group) {
  std::map<std::string, std::vector<int>> callers;
  for (int rank = 0; rank < group.size; ++rank) {
    const Slot& slot = group.members[rank].block->slot(sequence);
    if (slot.stamp.load() == sequence) callers[describe(call_in(slot), group)].push_back(rank);
  }
  std::vector<std::pair<std::vector<int>, std::string>> sides;
  for (const auto& [call, ranks] : callers) sides.emplace_back(ranks, call);
  std::sort(sides.begin(), sides.end());
  std::string text;
  for (const auto& [ranks, call] : sides) text += (text.empty() ? "" : ", ") + group.names_of(ranks) + " " + call;
  throw base::CommError(base::text_of("the ranks of group \"", group.name, "\" disagree at seq ", sequence, ": ", text,
                                      "; every rank must make the same calls in the same order"));
}

}  // namespace

uint64_t CollectiveQueue::post(Collective&& collective, const Group& group) {
  const auto size = static_cast<size_t>(group.size);
  collective.sequence = next_++;
  if (!spare_.empty()) {
    collective.parts = std::move(spare_.back());
    spare_.pop_back();
  }
  collective.parts.assign(size, Part{});
  queue_.push_back(std::move(collective));
  return next_ - 1;
}

bool CollectiveQueue::advance(Group& group) {
  bool moved = publish(group);
  moved |= compare(group);
  while (!queue_.empty() && shm::advance(queue_.front(), group, moved)) {
    if (queue_.front().bounce != nullptr) group.arena->release(queue_.front().bounce);
    spare_.push_back(std::move(queue_.front().parts));
    queue_.pop_front();
    --published_;
    publish(group);
    compare(group);
  }
  return moved;
}

// ---- entering ------------------------------------------------------------------------------------------------------

// Ahead of its turn too, so that peers can read this rank's input while it computes: if no earlier result of this rank
// becomes that input, and if no peer writes into it.
bool CollectiveQueue::may_publish(const Collective& collective, const Group& group) {
  if (collective.sequence >= slots_until_) {
    slots_until_ = slots_free_until(group);
    if (collective.sequence >= slots_until_) return false;
  }
  if (goes_inline(collective) && collective.sequence >= inline_until_) {
    inline_until_ = inline_free_until(group);
    if (collective.sequence >= inline_until_) return false;
  }
  if (&collective == &queue_.front()) return true;
  if (collective.peers_write) return false;
  return std::none_of(queue_.begin(), queue_.end(), [&](const Collective& earlier) {
    return earlier.sequence < collective.sequence &&
           overlap(collective.in, collective.shared_bytes, earlier.out, earlier.out_bytes);
  });
}

bool CollectiveQueue::peers_read_private(const Group& group) {
  if (!peers_read_private_) {
    peers_read_private_ = std::all_of(group.members.begin(), group.members.end(),
                                      [](const Member& member) { return member.block->reads_private.load(); });
  }
  return peers_read_private_;
}

// Decides where the peers find this rank's bytes, copies them there if it is elsewhere, and returns the place.
std::byte* CollectiveQueue::place(Collective& collective, Group& group) {
  const uint64_t bytes = collective.shared_bytes;
  auto* in = const_cast<std::byte*>(collective.in);
  if (bytes == 0) {
    collective.where = Where::Nowhere;
    return in;
  }
  if (goes_inline(collective)) {
    collective.where = Where::Inline;
    std::byte* area = group.own->inline_area(collective.sequence);
    std::memcpy(area, in, bytes);
    return area;
  }
  collective.where = Where::Arena;
  if (!collective.copy_input) {
    if (group.arena->contains(in, bytes)) return in;
    if (!collective.in_arena && bytes > group.table.copied_up_to_bytes && peers_read_private(group)) {
      collective.where = Where::Private;
      return in;
    }
  }
  collective.bounce = group.arena->allocate(bytes);
  std::memcpy(collective.bounce, in, bytes);
  return collective.bounce;
}

bool CollectiveQueue::publish(Group& group) {
  bool any = false;
  for (; published_ < queue_.size() && may_publish(queue_[published_], group); ++published_) {
    Collective& collective = queue_[published_];
    std::byte* mine = place(collective, group);
    const uint64_t sequence = collective.sequence;
    collective.published = true;
    collective.any_private |= collective.where == Where::Private;
    collective.parts[group.rank] = {.entered = true, .memory = mine};

    Slot& slot = group.own->slot(sequence);
    slot.operation = collective.call.operation;
    slot.dtype = collective.call.dtype;
    slot.reduce_op = collective.call.reduce_op;
    slot.root = collective.call.root;
    slot.count = collective.call.count;
    slot.where = collective.where;
    slot.offset = collective.where == Where::Arena     ? group.arena->offset_of(mine)
                  : collective.where == Where::Private ? reinterpret_cast<uintptr_t>(mine)
                                                       : 0;
    slot.labelled = !collective.call.label.empty();
    if (slot.labelled) std::memcpy(slot.label, collective.call.label.c_str(), collective.call.label.size() + 1);
    if (!collective.to_peer.empty()) {
      std::copy(collective.to_peer.begin(), collective.to_peer.end(), group.own->parts(sequence));
      for (int rank = 0; rank < group.rank; ++rank) collective.parts[group.rank].memory += collective.to_peer[rank];
    }
    slot.stamp.store(sequence, std::memory_order_release);
    group.ring_all();
    any = true;
    // the peers have these lines; they come back while this rank waits for the peers anyway
    prefetch_for_write(&group.own->slot(sequence + 1), sizeof(Slot::stamp));
    if (collective.where == Where::Inline) {
      prefetch_for_write(group.own->inline_area(sequence + 1), collective.shared_bytes);
    }
  }
  return any;
}

// ---- the peers' entries --------------------------------------------------------------------------------------------

// Compares every slot of every peer with this rank's once, also of collectives that are done here, so that no mismatch
// goes unseen. A slot stays as it is until `checked` of all ranks is past it.
bool CollectiveQueue::compare(Group& group) {
  bool any = false;
  const uint64_t end = first_sequence() + published_;
  uint64_t least = end;
  for (int peer = 0; peer < group.size; ++peer) {
    Member& member = group.members[peer];
    for (; peer != group.rank && member.checked < end; ++member.checked) {
      const uint64_t sequence = member.checked;
      const Slot& slot = member.block->slot(sequence);
      if (slot.stamp.load() != sequence) break;
      if (!same_call(slot, group.own->slot(sequence))) throw_mismatch(sequence, group);
      if (sequence >= first_sequence()) take_entry(queue_[sequence - first_sequence()], group, peer);
      any = true;
    }
    if (peer != group.rank) least = std::min(least, member.checked);
  }
  const uint64_t before = group.own->checked.load(std::memory_order_relaxed);
  if (least != before) {
    group.own->checked.store(least, std::memory_order_release);
    // a peer can only wait for this when it is far ahead
    if (least / (kSlots / 4) != before / (kSlots / 4)) group.ring_all();
  }
  return any;
}

void CollectiveQueue::take_entry(Collective& collective, const Group& group, int peer) const {
  const Member& member = group.members[peer];
  const Slot& slot = member.block->slot(collective.sequence);
  Part& part = collective.parts[peer];
  part.entered = true;
  switch (slot.where) {
    case Where::Nowhere:
      // nothing is read there
      part.memory = member.arena->base();
      break;
    case Where::Arena:
      part.memory = member.arena->base() + slot.offset;
      break;
    case Where::Inline:
      part.memory = member.block->inline_area(collective.sequence);
      break;
    case Where::Private:
      part.address = slot.offset;
      collective.any_private = true;
      break;
  }
  if (collective.from_peer.empty()) return;
  const uint64_t* parts = member.block->parts(collective.sequence);
  for (int rank = 0; rank < group.rank; ++rank) {
    if (part.memory != nullptr) part.memory += parts[rank];
    part.address += parts[rank];
  }
  if (parts[group.rank] != collective.from_peer[peer]) {
    throw base::CommError(base::text_of("the ranks of group \"", group.name, "\" disagree at seq ", collective.sequence,
                                        ": ", group.name_of_rank(peer), " all_to_all sends ", parts[group.rank],
                                        " bytes, ", group.name_of_rank(group.rank), " expects ",
                                        collective.from_peer[peer], " from it; the parts must agree pair by pair"));
  }
}

// ---- for errors ----------------------------------------------------------------------------------------------------

std::vector<int> CollectiveQueue::awaited(const Group& group) const {
  if (queue_.empty()) return {};
  const Collective& oldest = queue_.front();
  if (oldest.published) return shm::awaited(oldest, group);
  std::vector<int> peers;
  for (int peer = 0; peer < group.size; ++peer) {
    const ControlBlock& block = *group.members[peer].block;
    const bool slot_is_free = block.checked.load() + kSlots > oldest.sequence;
    const bool area_is_free = (block.progress.load() >> kStepBits) + kInlineSlots > oldest.sequence;
    if (!slot_is_free || (goes_inline(oldest) && !area_is_free)) peers.push_back(peer);
  }
  return peers;
}

std::vector<std::byte*> CollectiveQueue::blocks() const {
  std::vector<std::byte*> blocks;
  for (const Collective& collective : queue_) {
    if (collective.bounce != nullptr) blocks.push_back(collective.bounce);
  }
  return blocks;
}

}  // namespace trireme::shm
