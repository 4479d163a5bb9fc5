#include "trireme/train/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <random>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/checkpoint/generator.h"
#include "trireme/comm/objects.h"
#include "trireme/layers/forward_scope.h"
#include "trireme/optim/gradient_norm.h"
#include "trireme/spec/preflight.h"
#include "trireme/spec/schedule.h"

namespace trireme::train {
namespace {

// what each rank adds to the control message of a step: count, loss sum, stop, then for each rank the micro-batch whose
// loss is not finite, from 1
enum Contribution { Count, LossTotal, Stop, FirstRank };

// A configuration that was changed in code, or resolved for another number of ranks, is refused like one in a file.
spec::Config checked(spec::Config config, const comm::World& world) {
  base::Violations violations;
  spec::preflight(config, world.size(), {}, violations);
  violations.throw_if_any();
  return config;
}

std::string new_run_id() {
  std::random_device random;
  std::ostringstream id;
  id << std::hex << random() << random();
  return id.str();
}

}  // namespace

Trainer::Trainer(layers::Job job, spec::Config config, comm::World world, TrainerOptions options)
    : job_(std::move(job)),
      config_(checked(std::move(config), world)),
      world_(std::move(world)),
      parts_(compose(job_, config_, world_, {.probe = options.probe})) {
  const auto items = config_.micro_batch_size * config_.gradient_accumulation_steps *
                     (job_.training ? job_.training->items_per_sample() : 1);
  scale_ = {.nominal = nominal_items(items), .ranks = parts_.data_ranks.size()};
  run_id_ = comm::broadcast_string(world_.all(), new_run_id());
  parts_.model->train(true);
}

Trainer::~Trainer() = default;

data::LoaderOptions Trainer::loader_options() const {
  data::LoaderOptions options;
  options.seed = static_cast<uint64_t>(config_.training.seed);
  options.global_batch = config_.train_batch_size;
  options.micro_batch = config_.micro_batch_size;
  options.accumulation = config_.gradient_accumulation_steps;
  options.ranks = parts_.data_ranks.size();
  options.rank = parts_.data_ranks.rank();
  options.drop_last = config_.data.drop_last;
  options.shuffle = config_.data.shuffle;
  return options;
}

void Trainer::start_loader(int64_t samples_consumed) {
  auto options = loader_options();
  options.samples_consumed = samples_consumed;
  loader_ = std::make_unique<data::Loader>(job_.training, options);
}

data::StepBatches Trainer::next_batches() {
  if (!job_.training)
    throw base::UsageError("the job has no training data; give one, or call step() with batches of your own");
  const base::Stopwatch stopwatch(waited_for_data_);
  const auto phase = world_.phase("data");
  if (!loader_) start_loader(samples_consumed_);
  return loader_->next();
}

void Trainer::check_batches(const data::StepBatches& batches) const {
  const auto count = static_cast<int64_t>(batches.micro_batches.size());
  if (count > config_.gradient_accumulation_steps)
    throw base::UsageError(base::text_of("the step has ", count, " micro-batches, gradient_accumulation_steps is ",
                                         config_.gradient_accumulation_steps, "; give at most as many"));
  for (const auto& batch : batches.micro_batches)
    if (batch.samples > config_.micro_batch_size)
      throw base::UsageError(base::text_of("the batch has ", batch.samples,
                                           " samples, train_micro_batch_size_per_gpu is ", config_.micro_batch_size,
                                           "; split it, or raise the key"));
}

layers::LossSum Trainer::forward(const data::StepBatches& batches, size_t micro_batch) {
  const auto phase = world_.phase("forward");
  const data::BatchSplit split = {config_.micro_batch_size, config_.gradient_accumulation_steps,
                                  parts_.data_ranks.size(), parts_.data_ranks.rank()};
  const auto first_row = data::first_row_of(split, static_cast<int64_t>(micro_batch));
  const layers::ForwardScope scope({static_cast<uint64_t>(config_.training.seed), updates_, first_row, true});
  const auto& batch = batches.micro_batches[micro_batch];
  auto loss = job_.loss(parts_.model->forward(batch.inputs), batch);
  if (parts_.probe.defined()) loss.sum = loss.sum + parts_.probe * static_cast<double>(loss.count);
  return loss;
}

// Forward and backward of all micro-batches; the gradients are averaged over the ranks during the last backward.
Trainer::Totals Trainer::forward_backward(const data::StepBatches& batches, bool stop, StepSeconds& seconds) {
  auto& reducer = *parts_.reducer;
  const auto communication_before = reducer.counters().seconds;
  std::vector<double> contribution(FirstRank + parts_.data_ranks.size(), 0.0);
  contribution[Stop] = stop;
  try {
    walk_micro_batches(batches, contribution, seconds);
  } catch (...) {
    // the other ranks wait in this pass
    if (!reducer.in_pass()) {
      reducer.contribute(contribution);
      reducer.begin();
    }
    reducer.discard();
    throw;
  }
  {
    const base::Stopwatch stopwatch(seconds.backward);
    const auto phase = world_.phase("reduction");
    reducer.finish();
  }
  seconds.exposed_communication = reducer.counters().seconds - communication_before;
  const auto& totals = reducer.totals();
  refuse_non_finite_loss(totals);
  return {totals[Count], totals[LossTotal], totals[Stop] > 0};
}

// Leaves the reducer in the pass that finish() closes.
void Trainer::walk_micro_batches(const data::StepBatches& batches, std::vector<double>& contribution,
                                 StepSeconds& seconds) {
  auto& reducer = *parts_.reducer;
  int last = -1;
  for (size_t i = 0; i < batches.micro_batches.size(); ++i)
    if (batches.micro_batches[i].samples > 0) last = static_cast<int>(i);

  auto& bad_micro_batch = contribution[FirstRank + parts_.data_ranks.rank()];
  for (int i = 0; i <= last; ++i) {
    if (batches.micro_batches[i].samples == 0) continue;
    const auto start = base::seconds_now();
    const auto loss = forward(batches, i);
    const auto value = loss.sum.item<double>();
    contribution[Count] += static_cast<double>(loss.count);
    contribution[LossTotal] += value;
    if (!std::isfinite(value) && bad_micro_batch == 0) bad_micro_batch = i + 1;
    seconds.forward += base::seconds_now() - start;
    const auto phase = world_.phase("backward");
    const base::Stopwatch stopwatch(seconds.backward);
    if (i == last) {
      reducer.contribute(contribution);
      reducer.begin();
    }
    if (bad_micro_batch == 0 && loss.count > 0) (loss.sum * backward_scale(scale_)).backward();
  }
  if (last < 0) {  // out of data: this rank only answers
    reducer.contribute(contribution);
    reducer.begin();
  }
}

void Trainer::refuse_non_finite_loss(const std::vector<double>& totals) const {
  for (int r = 0; r < parts_.data_ranks.size(); ++r)
    if (totals[FirstRank + r] > 0)
      throw base::NonFiniteError(
          base::text_of("the loss of step ", updates_ + 1, " is not finite on rank ", parts_.data_ranks.ranks()[r],
                        ", micro-batch ", totals[FirstRank + r] - 1, "; check its data, or lower the learning rate"));
}

StepResult Trainer::step(const data::StepBatches& batches, bool stop) {
  check_batches(batches);
  world_.set_step(updates_ + 1);
  StepResult result;
  result.seconds.data = std::exchange(waited_for_data_, 0);
  generator_state_ = checkpoint::generator_state();
  parts_.parameters->check_in_place();
  parts_.gradients->zero();
  parts_.reducer->forget();

  const auto totals = forward_backward(batches, stop, result.seconds);
  const auto start = base::seconds_now();
  const auto phase = world_.phase("update");
  result.stop = totals.stop;
  result.items = static_cast<int64_t>(totals.count);
  result.learning_rate = spec::learning_rate(config_, updates_);
  if (totals.count == 0) {
    result.skipped = true;
    base::log_warning("no rank had a valid item in this step: nothing is updated");
  } else {
    result.loss = totals.loss_sum / totals.count;
    scale_.global_count = totals.count;
    update(result);
    if (!std::isfinite(result.grad_norm)) replay_and_name(batches, result.grad_norm);
    ++updates_;
  }
  if (batches.samples_consumed_after > 0) samples_consumed_ = batches.samples_consumed_after;
  result.step = updates_;
  result.seconds.optimizer = base::seconds_now() - start;
  result.seconds.backward -= std::min(result.seconds.backward, result.seconds.exposed_communication);
  return result;
}

// Norm, clipping and the optimizer, with the one multiplication that makes the gradient a mean.
void Trainer::update(StepResult& result) {
  result.gradient_scale = optimizer_scale(scale_);
  if (parts_.probe.defined()) {
    check_probe(parts_.probe.grad().item<double>() * result.gradient_scale, scale_);
    parts_.probe.grad().zero_();  // it measures, it does not count
  }
  double squares = 0;
  for (const auto& range : parts_.ranges) {
    const auto& space = parts_.gradients->layout().spaces[range.space];
    for (const auto& bucket : space.buckets) {
      // share by share, in the order in which ranks would hold them: the same sum at every ZeRO stage
      const auto share = bucket.share(parts_.data_ranks.size());
      for (auto begin = bucket.begin; begin < bucket.end; begin += share)
        squares += optim::squared_norm(parts_.gradients->flat(range.space), begin, begin + share);
    }
  }
  result.grad_norm = std::sqrt(squares) * result.gradient_scale;
  if (!std::isfinite(result.grad_norm)) return;
  const auto scale = result.gradient_scale * optim::clip_factor(result.grad_norm, config_.gradient_clipping);
  for (auto& range : parts_.ranges) range.optimizer->step(result.learning_rate, scale);
}

// The weights are those before the step: running it again without reduction finds whose gradient it was.
void Trainer::replay_and_name(const data::StepBatches& batches, double norm) {
  checkpoint::set_generator_state(generator_state_);
  parts_.gradients->zero();
  std::string found;
  for (size_t i = 0; i < batches.micro_batches.size() && found.empty(); ++i) {
    if (batches.micro_batches[i].samples == 0) continue;
    const auto loss = forward(batches, i);
    if (loss.count == 0) continue;
    (loss.sum * backward_scale(scale_)).backward();
    for (const auto& parameter : parts_.model->parameters()) {
      const auto& gradient = parameter.tensors[0].grad();
      if (gradient.defined() && !gradient.isfinite().all().item<bool>()) {
        found = base::text_of("on rank ", world_.rank(), ", micro-batch ", i, ", first in ", parameter.name);
        break;
      }
    }
  }
  for (const auto& text : comm::all_gather_strings(parts_.data_ranks, found))
    if (!text.empty())
      throw base::NonFiniteError(
          base::text_of("the gradient of step ", updates_ + 1, " is not finite ", text,
                        "; the weights are unchanged, lower the learning rate or check the data"));
  throw base::NonFiniteError(
      base::text_of("the gradient norm of step ", updates_ + 1, " is ", norm,
                    " although every rank's own gradient is finite: their sum overflows; lower the loss or the batch"));
}

Evaluation Trainer::evaluate(int64_t batches) {
  return job_.validation ? evaluate(*job_.validation, batches) : Evaluation{};
}

Evaluation Trainer::evaluate(const data::Dataset& dataset, int64_t batches) {
  const auto phase = world_.phase("evaluation", true);
  const auto& ranks = parts_.data_ranks;
  auto rows = data::evaluation_share(dataset.size(), ranks.size(), ranks.rank());
  if (batches > 0 && batches < dataset.size())
    rows.end = std::min(rows.end, rows.begin + batches * config_.micro_batch_size);
  Evaluation mine;
  comm::together(ranks, [&] { mine = train::evaluate(model(), job_, dataset, rows, config_.micro_batch_size); });
  parts_.model->train(true);
  const auto sums = at::tensor({mine.loss_sum, static_cast<double>(mine.items)}, at::kDouble);
  ranks.all_reduce(sums).wait();
  return {sums[0].item<double>(), static_cast<int64_t>(sums[1].item<double>())};
}

}  // namespace trireme::train
