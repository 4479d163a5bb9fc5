#include "trireme/data/loader.h"

#include <optional>
#include <span>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::data {
namespace {

using base::ConfigError;
using base::text_of;

SampleOrder order_of(const Dataset& dataset, const LoaderOptions& options) {
  return {.seed = options.seed,
          .dataset_size = dataset.size(),
          .global_batch = options.global_batch,
          .drop_last = options.drop_last,
          .shuffle = options.shuffle};
}

void check_options(const LoaderOptions& o) {
  if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks) {
    throw ConfigError(text_of("the loader's rank must lie in [0, ranks): rank ", o.rank, " of ", o.ranks));
  }
  if (o.micro_batch < 1 || o.accumulation < 1 || o.prefetch < 0) {
    throw ConfigError(text_of(
        "the loader needs micro_batch and accumulation of at least 1 and prefetch of at least 0: ", o.micro_batch, ", ",
        o.accumulation, ", ", o.prefetch));
  }
  // divisions, because a product of huge numbers could wrap and agree by accident
  if (o.global_batch % o.ranks != 0 || o.global_batch / o.ranks % o.micro_batch != 0 ||
      o.global_batch / o.ranks / o.micro_batch != o.accumulation) {
    throw ConfigError(text_of("the global batch must be micro-batch x accumulation x ranks: ", o.global_batch,
                              " is not ", o.micro_batch, " x ", o.accumulation, " x ", o.ranks));
  }
}

// Nothing if it is asked to stop between two micro-batches.
std::optional<StepBatches> prepare(const Dataset& dataset, const LoaderOptions& options, int64_t samples_consumed,
                                   const std::stop_token& stop) {
  const StepSamples step = step_samples(order_of(dataset, options), samples_consumed);
  const BatchSplit split = {options.micro_batch, options.accumulation, options.ranks, options.rank};
  StepBatches out;
  out.global_samples = static_cast<int64_t>(step.samples.size());
  out.samples_consumed_after = step.samples_consumed_after;
  out.epoch = step.epoch;
  out.micro_batches.resize(options.accumulation);
  for (int64_t micro = 0; micro < options.accumulation; ++micro) {
    if (stop.stop_requested()) return std::nullopt;
    const Rows rows = rows_of(split, micro, out.global_samples);
    if (rows.count() == 0) continue;
    const auto samples = std::span(step.samples).subspan(rows.begin, rows.count());
    Batch batch = dataset.batch_in_epoch(samples, step.epoch);
    check_shapes(batch, rows.count());
    if (options.check_finite) check_finite(batch, samples);
    out.micro_batches[micro] = std::move(batch);
  }
  return out;
}

}  // namespace

StepBatches step_batches(const Dataset& dataset, const LoaderOptions& options, int64_t samples_consumed) {
  check_options(options);
  return *prepare(dataset, options, samples_consumed, std::stop_token());
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options), state_(options.samples_consumed) {
  check_order(order_of(*dataset_, options_));
  check_options(options_);
  check_position(state_);
  if (options_.prefetch == 0) return;
  prefetcher_ = std::make_unique<Prefetcher<StepBatches>>(
      [dataset = dataset_, options = options_, position = state_](const std::stop_token& stop) mutable {
        std::optional<StepBatches> step = prepare(*dataset, options, position, stop);
        if (step) position = step->samples_consumed_after;
        return step;
      },
      static_cast<size_t>(options_.prefetch));
}

StepBatches Loader::next() {
  StepBatches step = prefetcher_ ? prefetcher_->next() : step_batches(*dataset_, options_, state_);
  state_ = step.samples_consumed_after;
  return step;
}

int64_t Loader::steps_per_epoch() const {
  return data::steps_per_epoch(order_of(*dataset_, options_));
}

}  // namespace trireme::data
