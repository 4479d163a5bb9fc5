#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/loader.h"
#include "trireme/train/compose.h"
#include "trireme/train/evaluate.h"
#include "trireme/train/ledger.h"

namespace trireme::train {

/// Where the wall time of one step went on this rank, in seconds. exposed_communication is what the rank's thread spent
/// in collectives during backward and after it; backward is without that.
struct StepSeconds {
  double data = 0, forward = 0, backward = 0, exposed_communication = 0, optimizer = 0;
  double total() const { return data + forward + backward + exposed_communication + optimizer; }
};

struct StepResult {
  int64_t step = 0;      // optimizer updates done after this step
  double loss = 0;       // mean over all items of the global batch, before the update
  double grad_norm = 0;  // global, of that mean's gradient, before clipping
  double learning_rate = 0;
  int64_t items = 0;  // of the global batch
  double gradient_scale =
      0;                 // what the averaged gradients in Composition::gradients were multiplied by, without clipping
  bool skipped = false;  // no rank had a valid item: nothing was updated
  bool stop = false;     // some rank asked to stop
  StepSeconds seconds;
};

struct TrainerOptions {
  bool probe = false;  // measure the gradient's scale in every step (ledger.h)
};

/// Trains one job: what happens between a batch and updated weights, on any number of ranks.
///
/// All ranks make the same calls. Losses and gradients are means over the items of the global batch, exactly, however
/// the samples are spread over ranks and micro-batches.
class Trainer {
 public:
  Trainer(layers::Job job, spec::Config config, comm::World world, TrainerOptions options = {});
  ~Trainer();

  /// The next batches of the training data for this rank, prepared ahead by a thread. The time that it waited goes into
  /// the next step's seconds.data.
  data::StepBatches next_batches();

  /// One optimizer step on this rank's micro-batches; a rank may have empty ones or none, but not more or larger ones
  /// than the configuration says (base::UsageError). `stop` asks all ranks to stop after it. Throws
  /// base::NonFiniteError, equal on all ranks, that names rank and micro-batch or parameter; the weights are then still
  /// those before the step. What forward, loss or backward throw on one rank passes through, and the others throw
  /// base::PeerLostError.
  StepResult step(const data::StepBatches& batches, bool stop = false);
  StepResult step(const data::Batch& batch) { return step(data::StepBatches{{batch}, batch.samples, 0, 0}); }

  /// Over the job's validation data, each sample once: `batches` micro-batches a rank, 0: all. Items 0 without data.
  Evaluation evaluate(int64_t batches = 0);
  Evaluation evaluate(const data::Dataset& dataset, int64_t batches = 0);

  /// Writes <run_folder>/checkpoints/step_N with everything that the run needs to go on: on any number of ranks.
  void save(const std::string& run_folder);
  /// Reads a checkpoint folder. What differs between its configuration and this one is said in notes(). Nothing is
  /// changed if any of it is damaged or does not fit (base::DataError).
  void load(const std::string& checkpoint_folder);

  int64_t updates() const { return updates_; }
  const spec::Config& config() const { return config_; }
  const comm::World& world() const { return world_; }
  const layers::Job& job() const { return job_; }
  layers::Model& model() { return *parts_.model; }
  const Composition& parts() const { return parts_; }
  const std::string& run_id() const { return run_id_; }
  const std::vector<std::string>& notes() const { return parts_.notes; }

 private:
  struct Totals {
    double count = 0, loss_sum = 0;
    bool stop = false;
  };
  void check_batches(const data::StepBatches& batches) const;
  layers::LossSum forward(const data::StepBatches& batches, size_t micro_batch);
  Totals forward_backward(const data::StepBatches& batches, bool stop, StepSeconds& seconds);
  void walk_micro_batches(const data::StepBatches& batches, std::vector<double>& contribution, StepSeconds& seconds);
  void refuse_non_finite_loss(const std::vector<double>& totals) const;
  [[noreturn]] void replay_and_name(const data::StepBatches& batches, double norm);
  void update(StepResult& result);
  void start_loader(int64_t samples_consumed);
  data::LoaderOptions loader_options() const;

  layers::Job job_;
  spec::Config config_;
  comm::World world_;
  Composition parts_;
  ScaleInputs scale_;  // of gradients; global_count is that of the step
  int64_t updates_ = 0;
  int64_t samples_consumed_ = 0;
  std::string run_id_;
  std::unique_ptr<data::Loader> loader_;
  double waited_for_data_ = 0;
  at::Tensor generator_state_;  // of the default generator before the step: a replay draws the same
};

}  // namespace trireme::train
