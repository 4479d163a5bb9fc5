#include "trireme/data/sampling.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/permutation.h"
#include "trireme/base/random.h"

namespace trireme::data {

using base::ConfigError;
using base::DataError;
using base::text_of;

void check_order(const SampleOrder& order) {
  if (order.dataset_size < 1) throw DataError("the dataset has 0 samples; nothing can be trained or evaluated on it");
  if (order.global_batch < 1) {
    throw ConfigError(text_of("the global batch must be at least 1 sample: ", order.global_batch));
  }
  if (order.drop_last && order.dataset_size < order.global_batch) {
    throw ConfigError(
        text_of("0 steps per epoch: the dataset has fewer samples than one global batch and drop_last "
                "leaves them out: ",
                order.dataset_size, " samples, global batch ", order.global_batch,
                "; make the batch smaller or turn drop_last off"));
  }
}

void check_position(int64_t samples_consumed) {
  if (samples_consumed < 0) {
    throw DataError(text_of("the position in the data must not be negative: samples_consumed ", samples_consumed));
  }
}

int64_t samples_per_epoch(const SampleOrder& order) {
  check_order(order);
  return order.drop_last ? order.dataset_size - order.dataset_size % order.global_batch : order.dataset_size;
}

int64_t steps_per_epoch(const SampleOrder& order) {
  return (samples_per_epoch(order) - 1) / order.global_batch + 1;
}

StepSamples step_samples(const SampleOrder& order, int64_t samples_consumed) {
  check_order(order);
  check_position(samples_consumed);
  const int64_t size = order.dataset_size;
  const auto too_few = [&](int64_t offset) { return order.drop_last && size - offset < order.global_batch; };

  StepSamples step;
  step.epoch = samples_consumed / size;
  int64_t offset = samples_consumed % size;
  if (too_few(offset)) {  // only after the batch size has changed
    ++step.epoch;
    offset = 0;
  }
  const int64_t count = std::min(order.global_batch, size - offset);
  step.samples.resize(count);
  if (order.shuffle) {
    const base::Permutation permutation(base::hash(base::hash(order.seed, "order"), static_cast<uint64_t>(step.epoch)),
                                        size);
    for (int64_t i = 0; i < count; ++i) step.samples[i] = static_cast<int64_t>(permutation(offset + i));
  } else {
    for (int64_t i = 0; i < count; ++i) step.samples[i] = offset + i;
  }
  const int64_t after = too_few(offset + count) ? size : offset + count;
  step.samples_consumed_after = step.epoch * size + after;
  return step;
}

int64_t first_row_of(const BatchSplit& split, int64_t micro_index) {
  TRIREME_CHECK(split.micro_batch > 0 && split.ranks > 0, "micro_batch ", split.micro_batch, " ranks ", split.ranks);
  TRIREME_CHECK(split.rank >= 0 && split.rank < split.ranks, "rank ", split.rank, " ranks ", split.ranks);
  TRIREME_CHECK(micro_index >= 0 && micro_index < split.accumulation, "micro-batch ", micro_index, " of ",
                split.accumulation);
  return (micro_index * split.ranks + split.rank) * split.micro_batch;
}

Rows rows_of(const BatchSplit& split, int64_t micro_index, int64_t n) {
  const int64_t begin = first_row_of(split, micro_index);
  return {std::min(begin, n), std::min(begin + split.micro_batch, n)};
}

Rows evaluation_share(int64_t n, int ranks, int rank) {
  TRIREME_CHECK(n >= 0 && ranks > 0 && rank >= 0 && rank < ranks, "n ", n, " ranks ", ranks, " rank ", rank);
  const int64_t each = n / ranks;
  const int64_t larger = n % ranks;  // the first ranks take one sample more
  const int64_t begin = rank * each + std::min<int64_t>(rank, larger);
  return {begin, begin + each + (rank < larger ? 1 : 0)};
}

std::array<uint32_t, 4> sample_bits(uint64_t seed, int64_t epoch, int64_t sample, int64_t draw) {
  const uint64_t key = base::hash(base::hash(seed, "samples"), static_cast<uint64_t>(epoch));
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
  return base::philox({low(key), high(key)}, {low(sample), high(sample), low(draw), high(draw)});
}

}  // namespace trireme::data
