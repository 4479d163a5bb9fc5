#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "trireme/shm/collective.h"

namespace trireme::shm {

/// The collectives that this rank has posted and not finished, oldest first. The caller locks.
class CollectiveQueue {
 public:
  explicit CollectiveQueue(uint64_t first_sequence)
      : next_(first_sequence), slots_until_(first_sequence + kSlots), inline_until_(first_sequence + kInlineSlots) {}

  /// Returns the sequence number that it got.
  uint64_t post(Collective&& collective, const Group& group);

  /// Publishes, compares and moves whatever can be. Returns whether anything happened. Throws CommError for a mismatch
  /// with a peer, SystemError where the arena has no room for a copy.
  bool advance(Group& group);

  bool done(uint64_t sequence) const { return sequence < next_ - queue_.size(); }
  bool empty() const { return queue_.empty(); }
  const Collective& oldest() const { return queue_.front(); }
  uint64_t next_sequence() const { return next_; }

  /// The peers that the oldest waits for.
  std::vector<int> awaited(const Group& group) const;

  /// Blocks of the arena that unfinished collectives hold.
  std::vector<std::byte*> blocks() const;

 private:
  bool publish(Group& group);
  bool compare(Group& group);
  bool may_publish(const Collective& collective, const Group& group);
  bool peers_read_private(const Group& group);
  std::byte* place(Collective& collective, Group& group);
  void take_entry(Collective& collective, const Group& group, int peer) const;
  uint64_t first_sequence() const { return next_ - queue_.size(); }

  std::deque<Collective> queue_;
  uint64_t next_;
  size_t published_ = 0;  // of queue_

  // kept because the peers' lines are costly to read: collectives before these have a free slot and inline area
  uint64_t slots_until_;
  uint64_t inline_until_;
  bool peers_read_private_ = false;

  std::vector<std::vector<Part>> spare_;  // of finished collectives
};

}  // namespace trireme::shm
