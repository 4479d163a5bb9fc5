#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/shm/communicator.h"
#include "trireme/shm/status_writer.h"

namespace trireme::comm {

/// An operation's name for errors, whose text is made when it is needed.
struct OperationName {
  const char* name = "";
  uint64_t sequence = 0;
  uint64_t bytes = 0;      // of the larger buffer
  std::string label = {};  // of a barrier

  /// "all_reduce 7 of group 'world'", "barrier 'epoch 2' 8 of group 'world'".
  std::string text(const std::string& group) const;
};

/// What a Group handle and its Works share.
struct GroupState {
  std::string name;
  std::string backend_name;
  std::vector<int> ranks;  // world ranks, in group order
  int rank = 0;            // in this group
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Backend> backend;        // null for a group of one
  c10::intrusive_ptr<c10d::Store> store;            // of this group alone; null for a group of one
  std::shared_ptr<shm::Arena> arena;                // only with shm
  std::shared_ptr<shm::Communicator> communicator;  // only with shm, which advances when it is called
  std::shared_ptr<shm::RankStatusWriter> status;    // null where the board could not be made
  uint64_t sequence = 0;                            // of the last operation posted

  struct Dropped {
    c10::intrusive_ptr<c10d::Work> work;
    OperationName what;
  };
  std::vector<Dropped> dropped;  // unfinished Works that nobody holds: their errors surface at the next operation

  /// Rethrows the current exception of operation `what`, which could wait for `limit`, as one of base's errors, with
  /// the ranks that did not arrive.
  [[noreturn]] void explain(const std::string& what, std::chrono::milliseconds limit);
  [[noreturn]] void explain(const OperationName& what, std::chrono::milliseconds limit) {
    explain(what.text(name), limit);
  }

 private:
  [[noreturn]] void explain_unreported(const std::string& what, std::chrono::milliseconds limit);
};

/// What a Work holds. Destroyed unfinished, it goes to the group's dropped ones.
struct PostedWork {
  PostedWork(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<GroupState> group, OperationName what);
  ~PostedWork();
  PostedWork(const PostedWork&) = delete;
  PostedWork& operator=(const PostedWork&) = delete;

  c10::intrusive_ptr<c10d::Work> work;
  std::shared_ptr<GroupState> group;
  OperationName what;
};

}  // namespace trireme::comm
