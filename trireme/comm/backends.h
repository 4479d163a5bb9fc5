#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/world.h"

namespace trireme::shm {
class Arena;
class Communicator;
class RankStatusWriter;
struct AlgorithmTable;
}  // namespace trireme::shm

// The transports behind a Group, each a c10d::Backend.
namespace trireme::comm {

/// What a transport is made from. Only members of the group make it, all of them.
struct Membership {
  std::string name;                       // of the group
  std::vector<int> ranks;                 // world ranks in group order
  int rank = 0;                           // in the group
  c10::intrusive_ptr<c10d::Store> store;  // of this group alone
  std::chrono::milliseconds timeout{};
  std::shared_ptr<shm::RankStatusWriter> status;  // may be null
};

/// The one function that picks the backend: `wanted` is "auto", "shm", "gloo" or one that is refused with a sentence.
/// auto: shm if all ranks are on one host, else gloo.
std::string choose_backend(const std::string& wanted, const Place& place);

/// TCP, any hosts. 16-bit reductions are ours (all_to_all, fp32 sum in rank order, all_gather): libtorch's sums differ
/// between elements of equal inputs.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Membership& membership);

/// The member of the group in shared memory; tensors in `arena` are not copied. `table` is the same on all ranks.
std::shared_ptr<shm::Communicator> make_communicator(const Membership& membership,
                                                     const std::shared_ptr<shm::Arena>& arena,
                                                     const shm::AlgorithmTable& table);
c10::intrusive_ptr<c10d::Backend> make_shm_backend(const std::shared_ptr<shm::Communicator>& communicator);
/// c10d's barrier has no label.
c10::intrusive_ptr<c10d::Work> labelled_barrier(const std::shared_ptr<shm::Communicator>& communicator,
                                                const std::string& label);

}  // namespace trireme::comm
