#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/data/prefetch.h"
#include "trireme/data/sampling.h"

namespace trireme::data {

struct LoaderOptions {
  uint64_t seed = 0;
  int64_t global_batch = 1;  ///< samples a step; must be micro_batch * accumulation * ranks
  int64_t micro_batch = 1;   ///< samples in a micro-batch of one rank
  int64_t accumulation = 1;  ///< micro-batches a step
  int ranks = 1;             ///< data ranks
  int rank = 0;
  bool drop_last = false;
  bool shuffle = true;
  int64_t samples_consumed = 0;  ///< where to start: state() of the run that is continued
  int64_t prefetch = 2;          ///< steps prepared ahead, each held in memory; 0: made in next() and no thread
  bool check_finite = true;      ///< refuse NaN and infinity; off if the data marks gaps with them
};

/// What one rank needs for one optimizer step.
struct StepBatches {
  std::vector<Batch> micro_batches;    ///< `accumulation` many; the last ones may be smaller or empty
  int64_t global_samples = 0;          ///< samples of the step over all ranks
  int64_t samples_consumed_after = 0;  ///< position of the next step
  int64_t epoch = 0;
};

/// The step at position `samples_consumed`, made at once: for replaying a step. options.samples_consumed and .prefetch
/// have no meaning here. Throws what the dataset throws, and base::DataError for a batch of a wrong shape.
StepBatches step_batches(const Dataset& dataset, const LoaderOptions& options, int64_t samples_consumed);

/// Walks a rank through its part of the data step by step, for ever; a thread prepares the next steps.
class Loader {
 public:
  /// Throws base::ConfigError if the options do not fit each other, base::DataError for a dataset without
  /// samples or a negative position.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);

  /// The next step. An exception of the dataset is rethrown when its step's turn has come.
  StepBatches next();

  /// samples_consumed after the last step that next() returned; steps prepared ahead do not count.
  int64_t state() const { return state_; }

  int64_t steps_per_epoch() const;

 private:
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  int64_t state_;
  std::unique_ptr<Prefetcher<StepBatches>> prefetcher_;
};

}  // namespace trireme::data
