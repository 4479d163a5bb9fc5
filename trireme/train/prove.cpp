#include "trireme/train/prove.h"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/comm/objects.h"
#include "trireme/spec/schedule.h"
#include "trireme/train/trainer.h"

namespace trireme::train {
namespace {

// What one step left behind, by parameter.
struct Outcome {
  StepResult result;
  std::vector<at::Tensor> gradients, weights;
};

// A warm-up may begin at a rate of 0, which would prove nothing of the update.
spec::Config at_full_rate(spec::Config config) {
  config.optimizer.lr = spec::peak_learning_rate(config);
  config.scheduler.reset();
  return config;
}

double relative(double difference, double size) {
  return difference == 0 ? 0 : difference / size;
}

Outcome run_one_step(const layers::Job& job, const spec::Config& config, const comm::World& world) {
  Trainer trainer(job, at_full_rate(config), world, {.probe = true});
  Outcome outcome;
  outcome.result = trainer.step(trainer.next_batches());
  const auto& parts = trainer.parts();
  const auto& parameters = parts.model->parameters();
  for (size_t p = 0; p < parameters.size(); ++p) {
    const bool trainable = parts.gradients->trainable(static_cast<int>(p));
    outcome.gradients.push_back(trainable ? parts.gradients->alias(static_cast<int>(p)).to(at::kDouble) *
                                                outcome.result.gradient_scale
                                          : at::Tensor());
    outcome.weights.push_back(parameters[p].tensors[0].detach().clone());
  }
  return outcome;
}

spec::Config plain(spec::Config config) {
  config.gradient_accumulation_steps = config.train_batch_size / config.micro_batch_size;
  config.world_size = 1;
  config.parallel = {};
  return config;
}

double length(const at::Tensor& tensor) {
  return tensor.norm().item<double>();
}

// How far the difference of two gradients may move a weight: for Adam's first step lr * g / (|g| + eps) at most
// 2 lr |dg| / (|g| + eps) and never more than 2 lr, for SGD lr |dg|; plus the rounding of the weight itself.
at::Tensor allowed_move(const spec::OptimizerConfig& optimizer, double lr, double clip, const at::Tensor& gradient,
                        const at::Tensor& difference, const at::Tensor& weight) {
  const auto change = (difference.abs() + gradient.abs() * 1e-6) * clip;
  const auto rounding = weight.to(at::kDouble).abs() * 4e-7 + lr * 1e-6;
  if (optimizer.type == "sgd") return change * lr + rounding;
  return (change * 2 / (gradient.abs() * clip + optimizer.eps)).clamp_max(2) * lr + rounding;
}

std::vector<ProofRow> compare(const layers::Job& job, const spec::Config& config, const Outcome& plain_run,
                              const Outcome& parallel, const std::vector<std::string>& names) {
  const auto items = static_cast<double>(std::max<int64_t>(1, plain_run.result.items));
  const double fp32 = std::ldexp(1.0, -24);
  const double bound = 0.25 / std::max<double>(items, config.world_size);
  // an item too many is found by its count, where the sums' own rounding is coarser than one item
  const double tolerance = std::max(64 * fp32, std::min(bound, 64 * fp32 * std::sqrt(items)));
  std::vector<ProofRow> rows;
  const double loss = plain_run.result.loss;
  rows.push_back({"loss", relative(std::abs(loss - parallel.result.loss), std::abs(loss)), tolerance});
  rows.push_back({"number of items", std::abs(items - static_cast<double>(parallel.result.items)), 0});

  double squares = 0, elements = 0;
  for (const auto& gradient : plain_run.gradients)
    if (gradient.defined()) {
      squares += std::pow(length(gradient), 2);
      elements += static_cast<double>(gradient.numel());
    }
  const double clip =
      config.gradient_clipping > 0 ? std::min(1.0, config.gradient_clipping / (std::sqrt(squares) + 1e-6)) : 1;
  for (size_t p = 0; p < names.size(); ++p) {
    const auto &gradient = plain_run.gradients[p], &weight = plain_run.weights[p];
    if (!gradient.defined() || gradient.numel() == 0) continue;
    const auto difference = parallel.gradients[p] - gradient;
    const double floor = std::sqrt(squares * static_cast<double>(gradient.numel()) / elements);
    const double size = std::max({length(gradient), floor, 1e-300});
    rows.push_back({"gradient of " + names[p], length(difference) / size, tolerance});
    const auto lr = plain_run.result.learning_rate *
                    (job.parameter_group ? job.parameter_group(names[p]).learning_rate_scale : 1.0);
    const auto moved = (parallel.weights[p].to(at::kDouble) - weight.to(at::kDouble)).abs();
    const auto allowed = allowed_move(config.optimizer, lr, clip, gradient, difference, weight);
    const auto excess = at::where(moved == 0, moved, moved / allowed);  // 0 / 0: neither moved
    rows.push_back({names[p] + " after the update", excess.max().item<double>(), 1});
  }
  return rows;
}

}  // namespace

bool Proof::equal() const {
  return std::all_of(rows.begin(), rows.end(), [](const ProofRow& row) { return row.equal(); });
}

std::string Proof::text() const {
  std::ostringstream out;
  const auto worst = std::max_element(rows.begin(), rows.end(), [](const ProofRow& a, const ProofRow& b) {
    return a.error * std::max(b.tolerance, 1e-300) < b.error * std::max(a.tolerance, 1e-300);
  });
  for (const auto& row : rows)
    if (!row.equal())
      out << "differs: " << row.what << ": error " << row.error << ", tolerance " << row.tolerance << "\n";
  out << (equal() ? "equal" : "NOT EQUAL") << ": one process and " << ranks << " ranks, " << items << " items, "
      << rows.size() << " comparisons; nearest to its tolerance: " << worst->what << " (error " << worst->error
      << ", tolerance " << worst->tolerance << ")";
  return out.str();
}

base::Json Proof::json() const {
  auto list = base::Json::array();
  for (const auto& row : rows)
    list.push_back({{"what", row.what}, {"error", row.error}, {"tolerance", row.tolerance}, {"equal", row.equal()}});
  return {{"equal", equal()}, {"ranks", ranks}, {"items", items}, {"comparisons", list}};
}

Proof prove(const layers::Job& job, const spec::Config& config, const comm::World& world) {
  std::optional<Outcome> plain_run;
  comm::together(world.all(), [&] {
    if (world.rank() == 0) plain_run = run_one_step(job, plain(config), comm::World::from_store({}, nullptr));
  });
  const auto parallel = run_one_step(job, config, world);

  Proof proof;
  proof.ranks = world.size();
  proof.items = parallel.result.items;
  std::string text;
  if (world.rank() == 0) {
    std::vector<std::string> names;
    const layers::Model model(job.layers, static_cast<uint64_t>(config.training.seed));
    for (const auto& parameter : model.parameters()) names.push_back(parameter.name);
    proof.rows = compare(job, config, *plain_run, parallel, names);
    text = proof.json().dump();
  }
  const auto json = base::Json::parse(comm::broadcast_string(world.all(), text));
  if (world.rank() != 0)
    for (const auto& row : json.at("comparisons"))
      proof.rows.push_back(
          {row.at("what").get<std::string>(), row.at("error").get<double>(), row.at("tolerance").get<double>()});
  return proof;
}

}  // namespace trireme::train
