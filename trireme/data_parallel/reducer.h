#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/group.h"
#include "trireme/data_parallel/gradient_hooks.h"
#include "trireme/layers/flat_store.h"

namespace trireme::data_parallel {

struct ReducerOptions {
  /// true: a bucket is reduced as soon as its last gradient is there; false: all of them at the end of backward.
  bool overlap = true;
  /// Where the average of a bucket goes: false: whole to every rank (ZeRO 0 and 1), true: each rank's share to that
  /// rank (ZeRO 2 and 3), the rest of its bucket is then undefined.
  bool shard_gradients = false;
};

/// Averages gradients over the ranks of a group, bucket by bucket, while backward is still running.
///
/// It is a state machine: begin() opens a synchronised pass, ready(parameter) says that a gradient is complete in this
/// pass, finish() closes it. Buckets are launched in their order on every rank, so one unused parameter delays its
/// bucket and the later ones to finish(), which is right without any flag. While synchronised() is on, the first hook
/// of a backward calls begin() and the end of the outermost backward calls finish(); a trainer or a pipeline executor
/// calls both itself. Outside a pass, gradients just accumulate.
///
/// finish() ends with the one control message of a step: an fp64 all-reduce of flags (a failed backward, late
/// gradients, which parameters are used on any rank) and of the caller's own numbers.
///
/// A gradient that comes after its bucket was launched (re-entrant backward) goes to a second buffer, which is reduced
/// at finish() if any rank has such a one.
///
/// One thread at a time. If a pass throws on one rank, it throws on all.
class Reducer final : public comm::BackwardObserver, private GradientListener {
 public:
  Reducer(std::shared_ptr<layers::FlatGradients> gradients, comm::Group group, ReducerOptions options = {});
  ~Reducer() override;

  void begin();
  void ready(int parameter);
  /// Returns when every gradient is the average over the group. Throws base::PeerLostError if a rank's backward failed.
  void finish();
  /// After a backward that threw: brings the collectives of all ranks in step again; the gradients are worthless.
  void discard() noexcept;
  /// What accumulated outside a pass is given up (zeroed, or other weights were loaded): no step on it can come.
  void forget();

  bool in_pass() const { return in_pass_; }

  /// Whether a backward by itself is a synchronised pass (default true); read when backward runs, not forward.
  void set_synchronised(bool on) { synchronised_ = on; }
  bool synchronised() const { return synchronised_; }

  /// Numbers that the next finish() sums over the group (items, loss sum, …); as many on every rank.
  void contribute(std::vector<double> values) { contribution_ = std::move(values); }
  const std::vector<double>& totals() const { return totals_; }

  /// Whether the last finished pass, or an accumulation before it, gave this parameter a gradient on any rank.
  bool used(int parameter) const { return used_anywhere_[parameter]; }

  /// Called at the start and at the end of every synchronised pass: buffers, join.
  struct Events {
    std::function<void()> begun, finished;
  };
  void set_events(Events events) { events_ = std::move(events); }

  struct Counters {
    int64_t passes = 0;       // synchronised ones
    int64_t collectives = 0;  // of buckets
    int64_t bytes = 0;        // of buckets
    double seconds = 0;       // spent on this thread in communication during passes: none of it overlapped
  };
  const Counters& counters() const { return counters_; }
  const layers::FlatGradients& gradients() const { return *gradients_; }

 private:
  struct Bucket {
    int space = 0, index = 0;
    std::vector<int> parameters;
    int pending = 0;  // gradients still to come in this pass
    bool launched = false;
    comm::Work work;
    at::Tensor late;  // second buffer, [bucket]; made when it is first needed
    bool late_used = false;
  };

  void gradient_coming(int parameter, int user) override;
  void gradient_accumulated(int parameter, int user, bool arrived) override;
  void backward_ended() override;
  void backward_failed() noexcept override;

  Bucket& bucket_of(int parameter);
  void user_ready(int parameter, int user);
  void launch_ready_buckets(bool all);
  void launch(Bucket& bucket);
  comm::Work reduce(const at::Tensor& whole) const;
  void adopt(int parameter, const at::Tensor& tensor);  // a gradient that lies elsewhere goes into its slot
  void exchange_control(bool failed);
  void drop_late();
  void reduce_late(const std::vector<double>& late);
  void check_stepped_unreduced();

  std::shared_ptr<layers::FlatGradients> gradients_;
  comm::Group group_;
  ReducerOptions options_;
  Events events_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<int>> bucket_index_;  // [space][bucket] -> buckets_
  std::vector<std::vector<char>> fired_;        // [parameter][user], in this pass
  std::vector<char> used_here_;                 // [parameter], since the last finish
  std::vector<char> used_anywhere_;
  std::vector<uint64_t> before_step_;  // [parameter] fingerprints while gradients wait for a synchronised pass
  size_t next_ = 0;                    // bucket to launch next
  bool in_pass_ = false;
  bool engine_ends_pass_ = false;  // begun by a hook
  bool accumulating_ = false;      // inside a backward that only accumulates
  bool synchronised_ = true;
  at::Tensor control_;
  std::vector<double> contribution_, totals_;
  Counters counters_;
  std::optional<GradientHooks> hooks_;  // last: the hooks call this object
};

}  // namespace trireme::data_parallel
