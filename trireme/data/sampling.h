#pragma once

#include <array>
#include <cstdint>
#include <vector>

// Which samples a step trains on, and which of them belong to which rank: pure functions of a few numbers, so that a
// run stopped anywhere goes on exactly, on any number of ranks.
//
// The data is one endless stream: epoch after epoch, each a permutation of all N samples that follows from (seed,
// epoch) and needs no memory. A position in the stream is one number, `samples_consumed` = epoch * N + samples of that
// epoch behind it. A step takes the next B samples and never crosses an epoch's end: the last batch of an epoch is
// smaller, or, with drop_last, left out. What is left out counts as consumed: so the position means the same for every
// B and every number of ranks. Epochs leave out different samples, so that all are seen in time (if shuffled).
namespace trireme::data {

/// How the stream is made and cut into steps.
struct SampleOrder {
  uint64_t seed = 0;
  int64_t dataset_size = 0;  ///< N
  int64_t global_batch = 1;  ///< B, samples a step over all ranks and micro-batches
  bool drop_last = false;    ///< leave out an epoch's last N mod B samples
  bool shuffle = true;       ///< false: 0, 1, ..., N - 1 in every epoch
};

/// Throws base::DataError if there are no samples, base::ConfigError if B < 1 or if drop_last leaves no step.
void check_order(const SampleOrder& order);

/// Throws base::DataError if the position, which comes from a checkpoint, is negative.
void check_position(int64_t samples_consumed);

/// Samples trained on in an epoch: N, or with drop_last the largest multiple of B in N.
int64_t samples_per_epoch(const SampleOrder& order);

/// Steps in an epoch: samples_per_epoch / B, rounded up.
int64_t steps_per_epoch(const SampleOrder& order);

/// One step's share of the stream.
struct StepSamples {
  int64_t epoch = 0;
  std::vector<int64_t> samples;        ///< dataset indices in global row order; B, or fewer at an epoch's end
  int64_t samples_consumed_after = 0;  ///< the position of the next step
};

/// The step that starts at `samples_consumed`. Throws as check_order and check_position.
StepSamples step_samples(const SampleOrder& order, int64_t samples_consumed);

/// Rows [begin, end) of a list.
struct Rows {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Rows&) const = default;
};

/// How a global batch is cut: global_batch = micro_batch * accumulation * ranks.
struct BatchSplit {
  int64_t micro_batch = 1;   ///< samples in a micro-batch of one rank
  int64_t accumulation = 1;  ///< micro-batches a step
  int ranks = 1;             ///< data ranks
  int rank = 0;
};

/// The row of the global batch at which the rank's micro-batch `micro_index` starts, whether or not the step has so
/// many: (micro_index * ranks + rank) * micro_batch.
int64_t first_row_of(const BatchSplit& split, int64_t micro_index);

/// The rows of a step's `n` samples that the rank takes in micro-batch `micro_index`: micro_batch of them from
/// first_row_of on, as far as there are any.
Rows rows_of(const BatchSplit& split, int64_t micro_index, int64_t n);

/// The rank's part of `n` samples in an evaluation: every sample belongs to exactly one rank, none is repeated; parts
/// differ by at most one and rank 0's is the largest.
Rows evaluation_share(int64_t n, int ranks, int rank);

/// 128 random bits for draw number `draw` on a sample in an epoch, whatever rank, micro-batch or thread asks.
std::array<uint32_t, 4> sample_bits(uint64_t seed, int64_t epoch, int64_t sample, int64_t draw = 0);

}  // namespace trireme::data
