#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/data_parallel/reducer.h"

namespace trireme::data_parallel {

struct DistributedDataParallelOptions {
  /// As in PyTorch: must be empty for a CPU module.
  std::vector<int> device_ids = {};
  /// Rank 0's buffers (batch statistics, …) at the end of every synchronised backward. Off: only once, at the start.
  bool broadcast_buffers = true;
  /// Elements a bucket; 0: so that there are at least 8 buckets.
  int64_t bucket_elements = 0;
  bool overlap = true;
};

/// PyTorch's DistributedDataParallel for a loop of one's own: after backward() every parameter's .grad is the mean over
/// the ranks of the group of the gradients that their backwards gave. Construction gives all ranks rank 0's parameters
/// and buffers. The module stays the user's: call it directly. It must not get new parameters or other dtypes later.
///
/// backward() is where ranks meet: every rank runs the same number of them, or uses no_sync() or join(). One that
/// throws on one rank throws on all. Unused parameters and branches that differ by rank need no flag.
class DistributedDataParallel {
 public:
  /// Throws base::ConfigError for a module without trainable parameters, modules that differ between ranks, a module
  /// that is wrapped already, overlapping parameters, or options that do not fit the module's device.
  DistributedDataParallel(torch::nn::Module& module, comm::Group group, DistributedDataParallelOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  torch::nn::Module& module() { return module_; }
  const comm::Group& group() const { return group_; }

  /// While the guard lives, backward() only accumulates on this rank; what counts is when backward runs, not forward.
  /// The last backward before optimizer.step() must run outside any guard.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(Reducer& reducer) : reducer_(reducer), before_(reducer.synchronised()) {
      reducer.set_synchronised(false);
    }
    ~NoSync() { reducer_.set_synchronised(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Reducer& reducer_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(*reducer_); }

  /// What the mean divides by once some ranks have no data left: all ranks of the group, or those that still have some.
  enum class JoinDivisor { InitialWorld, ActiveRanks };

  /// For ranks with unequal numbers of batches: make the guard before the loop on every rank. A rank that leaves the
  /// loop answers the others' reductions with zeros in the guard's destructor until all have left; then every rank gets
  /// the parameters and buffers of the last rank that was active.
  class [[nodiscard]] Join {
   public:
    Join(DistributedDataParallel& ddp, JoinDivisor divisor);
    ~Join() noexcept(false);
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;

   private:
    DistributedDataParallel& ddp_;
    int exceptions_;
  };
  Join join(JoinDivisor divisor = JoinDivisor::InitialWorld) { return Join(*this, divisor); }

  /// What backwards under no_sync() have accumulated is given up: after loading other weights in its midst.
  void forget_gradients() { reducer_->forget(); }

  const Reducer::Counters& counters() const { return reducer_->counters(); }
  const Reducer& reducer() const { return *reducer_; }

 private:
  void pass_begun();
  void pass_finished();
  void count_active(bool active);
  void answer_until_all_have_joined();

  torch::nn::Module& module_;
  comm::Group group_;
  DistributedDataParallelOptions options_;
  std::vector<layers::Parameter> parameters_;
  std::vector<layers::Buffer> buffers_;
  std::unique_ptr<Reducer> reducer_;
  bool joining_ = false;
  JoinDivisor divisor_ = JoinDivisor::InitialWorld;
  double active_ = 0;         // ranks with data in this pass
  int last_active_rank_ = 0;  // the highest of them, in the group
};

}  // namespace trireme::data_parallel
