#include "trireme/shm/group.h"

#include "trireme/base/error.h"
#include "trireme/shm/wait.h"

namespace trireme::shm {

namespace {

void wake_if_asleep(ControlBlock& block) {
  if (block.sleepers.load(std::memory_order_relaxed) == 0) return;
  block.doorbell.fetch_add(1);
  futex_wake(block.doorbell);
}

}  // namespace

void Group::ring(int peer) const {
  if (fenced) full_fence();
  wake_if_asleep(*members[peer].block);
}

void Group::ring_all() const {
  if (fenced) full_fence();
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) wake_if_asleep(*members[peer].block);
  }
}

void Group::publish_progress(uint64_t value) const {
  own->progress.store(value, std::memory_order_release);
  ring_all();
}

std::string Group::name_of_rank(int rank) const {
  return base::text_of("rank ", global_ranks[rank]);
}

std::string Group::names_of(const std::vector<int>& ranks) const {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(global_ranks[ranks[i]]);
  }
  return text;
}

}  // namespace trireme::shm
