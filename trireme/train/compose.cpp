#include "trireme/train/compose.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/random.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/generator.h"
#include "trireme/data_parallel/replicate.h"

namespace trireme::train {
namespace {

constexpr const char* probe_name = "gradient probe";

layers::ParameterGroup group_of(const layers::Job& job, const std::string& name) {
  return job.parameter_group && name != probe_name ? job.parameter_group(name) : layers::ParameterGroup{};
}

// neighbours with the same rules become one segment, the padding between them included: it is zero and stays zero
std::vector<optim::Segment> segments_of(const layers::Job& job, const layers::FlatSpace& space,
                                        const layers::FlatLayout& layout,
                                        const std::vector<layers::Parameter>& parameters) {
  std::vector<optim::Segment> segments;
  for (const auto& bucket : space.buckets)
    for (int p : bucket.parameters) {
      if (parameters[p].name == probe_name) continue;
      const auto group = group_of(job, parameters[p].name);
      const auto begin = layout.slots[p].begin;
      const auto end = begin + parameters[p].tensors[0].numel();
      if (!segments.empty() && segments.back().decay == group.weight_decay &&
          segments.back().lr_scale == group.learning_rate_scale)
        segments.back().end = end;
      else
        segments.push_back({begin, end, group.weight_decay, group.learning_rate_scale});
    }
  return segments;
}

}  // namespace

Composition compose(const layers::Job& job, const spec::Config& config, const comm::World& world,
                    const ComposeOptions& options) {
  // 1. The ranks' places. Only data parallel is built: preflight has refused the rest.
  auto degrees = config.parallel;
  mesh::Mesh mesh(degrees, world.size());
  auto data_ranks = world.all();

  // 2. The model, whole on every rank, with weights that are a function of the seed and the names alone.
  auto model = std::make_unique<layers::Model>(job.layers, static_cast<uint64_t>(config.training.seed));
  auto parameters = model->parameters();
  at::Tensor probe;
  if (options.probe) {
    probe = at::zeros({}, at::kFloat).requires_grad_(true);
    parameters.push_back({probe_name, {probe}, static_cast<int>(model->layers().size())});
  }
  if (std::none_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.tensors[0].requires_grad(); }))
    throw base::ConfigError("the model has no parameter that requires a gradient; there is nothing to train");
  data_parallel::compare_models(data_ranks, parameters, model->buffers());

  // 3. Flat storage. Parameters move before the gradients' hooks are set: the move makes new accumulation nodes.
  const auto flat = layers::flat_parameters(parameters);
  for (const auto& p : flat)
    if (p.trainable && p.dtype != at::kFloat)
      throw base::ConfigError(base::text_of("parameter ", p.name, " is ", p.dtype, "; only float32 is trained so far"));
  const auto elements = config.zero.reduce_bucket_size.value_or(layers::bucket_elements_for(flat, data_ranks.size()));
  const auto layout = layers::flat_layout(flat, {.ranks = data_ranks.size(), .bucket_elements = elements});
  auto flat_parameters = std::make_unique<layers::FlatParameters>(parameters, layout);
  auto gradients = std::make_shared<layers::FlatGradients>(parameters, layout, data_ranks);
  for (size_t p = 0; p < parameters.size(); ++p)
    if (gradients->trainable(static_cast<int>(p))) gradients->install(static_cast<int>(p));

  // 4. Equal weights everywhere: factories that draw from other generators than ours would differ silently.
  data_parallel::broadcast_values(data_ranks, data_parallel::tensors_of(parameters));
  data_parallel::broadcast_values(data_ranks, data_parallel::tensors_of(model->buffers()));

  // 5. The reduction, driven by the trainer: no backward is a synchronised pass by itself.
  auto reducer = std::make_unique<data_parallel::Reducer>(
      gradients, data_ranks, data_parallel::ReducerOptions{.overlap = config.zero.overlap_comm});
  reducer->set_synchronised(false);

  // 6. One optimizer a trainable space, on the same index space.
  std::vector<UpdatedRange> ranges;
  size_t buckets = 0;
  for (size_t s = 0; s < layout.spaces.size(); ++s) {
    const auto& space = layout.spaces[s];
    if (!space.trainable) continue;
    buckets += space.buckets.size();
    ranges.push_back(
        {static_cast<int>(s), std::make_unique<optim::FlatOptimizer>(
                                  config.optimizer, flat_parameters->flat(static_cast<int>(s)),
                                  gradients->flat(static_cast<int>(s)), segments_of(job, space, layout, parameters))});
  }

  std::vector<std::string> notes;
  if (data_ranks.size() > 1)
    notes.push_back(base::text_of("gradients: ", buckets, " buckets of about ", base::format_bytes(elements * 4),
                                  config.zero.reduce_bucket_size ? "" : " (chosen)", ", all-reduce ",
                                  config.zero.overlap_comm ? "overlapped with backward" : "after backward", " over ",
                                  data_ranks.size(), " ranks, backend ", data_ranks.backend()));
  // 7. What forward draws from torch's generator (torch::nn::Dropout) differs between ranks; ours is keyed by element.
  checkpoint::seed_generator(
      base::hash(base::hash(static_cast<uint64_t>(config.training.seed), "ranks"), data_ranks.rank()));

  return {std::move(mesh),      std::move(data_ranks), std::move(model),  std::move(flat_parameters),
          std::move(gradients), std::move(reducer),    std::move(ranges), std::move(probe),
          std::move(notes)};
}

}  // namespace trireme::train
