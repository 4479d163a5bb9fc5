#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/shm/algorithm.h"
#include "trireme/shm/arena.h"
#include "trireme/shm/control.h"

namespace trireme::shm {

/// One rank of a group as this rank sees it; itself included.
struct Member {
  std::shared_ptr<PeerArena> arena;
  ControlBlock* block = nullptr;

  /// First collective whose slot was not compared with this rank's.
  uint64_t checked = 0;
};

/// The ranks of a group and how this one tells them something.
struct Group {
  std::string name;
  std::vector<int> global_ranks;
  int rank = 0;
  int size = 0;
  std::shared_ptr<Arena> arena;
  std::vector<Member> members;
  ControlBlock* own = nullptr;
  AlgorithmTable table;
  bool fenced = true;  // some rank is not reached by fence_all(): stores need a fence each

  /// Wakes rank `peer` if it sleeps. To be called after a store: either this sees the sleeper, or the sleeper, which
  /// announces itself and fences all ranks before it looks a last time, sees the store.
  void ring(int peer) const;
  void ring_all() const;

  /// Stores to `progress`, then ring_all().
  void publish_progress(uint64_t value) const;

  /// "rank 3", by the global number.
  std::string name_of_rank(int rank) const;

  /// "rank 3", "ranks 0, 1 and 3".
  std::string names_of(const std::vector<int>& ranks) const;
};

}  // namespace trireme::shm
