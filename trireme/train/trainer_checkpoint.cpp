// What a checkpoint of a Trainer holds, and how it comes back. Tensors: every parameter under its own name, the
// optimizer's state of each as "exp_avg/<parameter>", buffers as "buffer/<name>", each rank's default generator as
// "generator/<rank>". Everything else is in the state: counters, the data position, the resolved configuration.
#include <ATen/ATen.h>

#include "trireme/base/error.h"
#include "trireme/base/random.h"
#include "trireme/checkpoint/generator.h"
#include "trireme/checkpoint/load.h"
#include "trireme/checkpoint/save.h"
#include "trireme/checkpoint/torch_tensor.h"
#include "trireme/train/trainer.h"

namespace trireme::train {
namespace {

checkpoint::LocalTensor slot_of(const std::string& name, const layers::Parameter& parameter, const at::Tensor& flat,
                                int64_t begin) {
  const auto& tensor = parameter.tensors[0];
  return {.name = name,
          .global_shape = tensor.sizes().vec(),
          .dtype = checkpoint::stored_dtype(tensor),
          .boxes = {},
          .begin = 0,
          .end = tensor.numel(),
          .data = static_cast<std::byte*>(flat.data_ptr()) + begin * static_cast<int64_t>(flat.element_size())};
}

// parameters and optimizer state, as pieces of memory that are saved from and loaded into
std::vector<checkpoint::LocalTensor> weights_and_state(const Composition& parts) {
  std::vector<checkpoint::LocalTensor> tensors;
  const auto& layout = parts.gradients->layout();
  const auto& parameters = parts.model->parameters();
  for (size_t p = 0; p < parameters.size(); ++p)
    tensors.push_back(slot_of(parameters[p].name, parameters[p], parts.parameters->flat(layout.slots[p].space),
                              layout.slots[p].begin));
  for (const auto& range : parts.ranges)
    for (const auto& state : range.optimizer->state())
      for (size_t p = 0; p < parameters.size(); ++p)
        if (layout.slots[p].space == range.space)
          tensors.push_back(
              slot_of(state.name + "/" + parameters[p].name, parameters[p], state.value, layout.slots[p].begin));
  return tensors;
}

const base::Json* find(const base::Json& json, std::initializer_list<const char*> path) {
  const auto* at = &json;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

// The schedule of a run is part of it: a length that only follows from --steps must not bend a cosine halfway.
void settle_schedule(const base::Json& saved, spec::Config& config, std::vector<std::string>& notes) {
  const auto* saved_total = find(saved, {"scheduler", "params", "total_num_steps"});
  if (!config.scheduler || !saved_total || !saved_total->is_number()) return;
  const auto total = saved_total->get<int64_t>();
  if (total == config.scheduler->total_num_steps) return;
  const bool asked = find(config.source, {"scheduler", "params", "total_num_steps"}) != nullptr;
  notes.push_back(base::text_of(
      "schedule: the checkpoint's total_num_steps is ", total, ", this run's ", config.scheduler->total_num_steps,
      asked ? "; this run's is used, as configured"
            : "; the checkpoint's is used, set scheduler.params.total_num_steps to change it"));
  if (!asked) config.scheduler->total_num_steps = total;
}

// Another model cannot take these weights: say which key differs rather than which tensor.
void refuse_another_model(const base::Json& saved, const spec::Config& config, const std::string& folder) {
  const auto now = spec::resolved(config);
  const auto *before = find(saved, {"model"}), *after = find(now, {"model"});
  if (!before || !after || !after->is_object()) return;
  for (const auto& [key, value] : after->items())
    if (const auto* old = find(*before, {key.c_str()}); old && *old != value)
      throw base::DataError(base::text_of("model.", key, " is ", value.dump(), ", checkpoint ", folder,
                                          " was made with ", old->dump(), "; set it back, or start a new run"));
}

void note_changed_options(const base::Json& saved, const spec::Config& config, std::vector<std::string>& notes) {
  const auto now = spec::resolved(config);
  for (const char* block : {"optimizer", "scheduler"}) {
    const auto *was = find(saved, {block, "type"}), *is = find(now, {block, "type"});
    if (was && is && *was != *is)
      notes.push_back(base::text_of("warning: the checkpoint was made with ", block, " ", was->dump(),
                                    ", this run uses ", is->dump(), "; state that it does not have starts anew"));
    const auto *before = find(saved, {block, "params"}), *after = find(now, {block, "params"});
    if (!before || !after) continue;
    for (const auto& [key, value] : after->items())
      if (key != "total_num_steps" && before->contains(key) && (*before)[key] != value)
        notes.push_back(base::text_of(block, ".params.", key, ": the checkpoint was made with ", (*before)[key].dump(),
                                      ", this run uses ", value.dump()));
  }
}

}  // namespace

void Trainer::save(const std::string& run_folder) {
  const auto phase = world_.phase("checkpoint", true);
  checkpoint::SaveRequest request;
  request.run_folder = run_folder;
  request.step = updates_;
  request.keep = config_.checkpoint.keep;
  request.run_id = run_id_;
  request.tensors = weights_and_state(parts_);
  // equal pieces of several ranks are split among them; buffers may differ by rank, rank 0's count
  std::vector<at::Tensor> kept(world_.rank() == 0 ? parts_.model->buffers().size() : 0);
  for (size_t b = 0; b < kept.size(); ++b) {
    const auto& buffer = parts_.model->buffers()[b];
    request.tensors.push_back(checkpoint::whole_tensor("buffer/" + buffer.name, buffer.tensor, kept[b]));
  }
  const auto generator = checkpoint::generator_state();
  request.tensors.push_back(checkpoint::whole_tensor(checkpoint::generator_name(world_.rank()), generator));
  request.state = {{"updates", updates_},
                   {"samples_consumed", samples_consumed_},
                   {"dataset_size", job_.training ? job_.training->size() : 0},
                   {"ranks", world_.size()},
                   {"config", spec::resolved(config_)}};
  checkpoint::save(request, world_.all());
}

void Trainer::load(const std::string& checkpoint_folder) {
  const checkpoint::Checkpoint saved(checkpoint_folder);
  const auto& state = saved.state();
  for (const char* key : {"updates", "samples_consumed", "dataset_size", "ranks", "config"})
    if (!state.contains(key))
      throw base::DataError("checkpoint " + checkpoint_folder + " has no '" + key +
                            "' in its state; a training run did not write it");
  const auto size_then = state.at("dataset_size").is_number_integer() ? state.at("dataset_size").get<int64_t>() : -1;
  if (job_.training && size_then != job_.training->size())
    throw base::DataError(base::text_of("the training data has ", job_.training->size(), " samples, checkpoint ",
                                        checkpoint_folder, " was made with ", size_then,
                                        "; give the same --data and sequence length"));
  const auto counter = [&](const char* key) {
    if (!state.at(key).is_number_integer() || state.at(key).get<int64_t>() < 0)
      throw base::DataError(base::text_of("checkpoint ", checkpoint_folder, " says ", state.at(key).dump(), " for '",
                                          key, "', which is no count"));
    return state.at(key).get<int64_t>();
  };
  const auto updates = counter("updates"), samples_consumed = counter("samples_consumed"), ranks = counter("ranks");
  if (updates != saved.step())
    throw base::DataError(base::text_of("checkpoint ", checkpoint_folder, " is of step ", saved.step(),
                                        ", its state of step ", updates, "; it was changed, take another"));
  refuse_another_model(state.at("config"), config_, checkpoint_folder);
  const auto tensors = weights_and_state(parts_);
  for (const auto& tensor : tensors) saved.check(tensor);
  for (const auto& buffer : parts_.model->buffers()) {
    at::Tensor keep;
    saved.check(checkpoint::whole_tensor("buffer/" + buffer.name, buffer.tensor, keep));
  }
  saved.verify();

  for (const auto& tensor : tensors) saved.read(tensor);
  for (const auto& buffer : parts_.model->buffers()) {
    at::Tensor keep;
    saved.read(checkpoint::whole_tensor("buffer/" + buffer.name, buffer.tensor, keep));
    if (keep.data_ptr() != buffer.tensor.data_ptr()) at::Tensor(buffer.tensor).copy_(keep);
  }
  if (ranks == world_.size()) {
    const auto bytes = checkpoint::generator_state().clone();
    saved.read(checkpoint::whole_tensor(checkpoint::generator_name(world_.rank()), bytes));
    checkpoint::set_generator_state(bytes);
  } else {
    // other ranks than then: every one gets a stream of its own
    checkpoint::seed_generator(
        base::hash(base::hash(static_cast<uint64_t>(config_.training.seed), saved.step()), world_.rank()));
  }
  updates_ = updates;
  samples_consumed_ = samples_consumed;
  for (auto& range : parts_.ranges) range.optimizer->set_steps(updates_);
  run_id_ = saved.run_id();
  settle_schedule(state.at("config"), config_, parts_.notes);
  note_changed_options(state.at("config"), config_, parts_.notes);
  loader_.reset();
  parts_.reducer->forget();
}

}  // namespace trireme::train
