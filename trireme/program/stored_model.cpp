#include "trireme/program/stored_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/json.h"
#include "trireme/base/safetensors.h"
#include "trireme/base/tokens.h"
#include "trireme/checkpoint/folders.h"
#include "trireme/checkpoint/load.h"
#include "trireme/checkpoint/torch_tensor.h"
#include "trireme/comm/dtype.h"
#include "trireme/data/token_dataset.h"
#include "trireme/model/models.h"

namespace trireme::program {
namespace fs = std::filesystem;
namespace {

// transformers writes the names with and without its model's own prefix
const base::TensorEntry& find_weight(const base::SafetensorsFile& file, const std::string& name,
                                     const std::string& path) {
  for (const auto& candidate : {name, "transformer." + name})
    if (const auto* entry = file.find(candidate)) return *entry;
  throw base::DataError("tensor " + name + " is not in " + path);
}

void load_export(const std::string& path, const layers::Model& model) {
  const base::SafetensorsFile file(path);
  at::NoGradGuard no_grad;
  for (const auto& parameter : model.parameters()) {
    const auto& tensor = parameter.tensors[0];
    const auto& entry = find_weight(file, parameter.name, path);
    if (entry.shape != tensor.sizes().vec())
      throw base::DataError(base::text_of("tensor ", parameter.name, " of ", path, " has shape ",
                                          at::IntArrayRef(entry.shape), ", the model's is ", tensor.sizes()));
    const auto type = comm::scalar_type_of(entry.dtype);
    if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16)
      throw base::DataError(base::text_of("tensor ", entry.name, " of ", path, " is ", base::name_of(entry.dtype),
                                          "; weights are F32, F16 or BF16"));
    const auto stored = at::empty(entry.shape, type);
    file.read(entry, 0, {static_cast<std::byte*>(stored.data_ptr()), entry.bytes()});
    for (auto user : parameter.tensors) user.detach().copy_(stored);
  }
}

void load_checkpoint(const checkpoint::Checkpoint& saved, const layers::Model& model) {
  at::NoGradGuard no_grad;
  for (const auto& parameter : model.parameters()) {
    const auto value = parameter.tensors[0].detach();
    saved.read(checkpoint::whole_tensor(parameter.name, value));
    for (size_t u = 1; u < parameter.tensors.size(); ++u) parameter.tensors[u].detach().copy_(value);
  }
  for (const auto& buffer : model.buffers()) {
    at::Tensor keep;
    saved.read(checkpoint::whole_tensor("buffer/" + buffer.name, buffer.tensor, keep));
    if (keep.data_ptr() != buffer.tensor.data_ptr()) at::Tensor(buffer.tensor).copy_(keep);
  }
}

StoredModel built(layers::Job job, std::optional<spec::Gpt2Spec> gpt2) {
  StoredModel stored{std::move(job), nullptr, std::move(gpt2), {}};
  stored.model = std::make_unique<layers::Model>(stored.job.layers, 0);
  stored.model->train(false);
  return stored;
}

StoredModel open_checkpoint(const std::string& folder, const JobFactory& job) {
  const checkpoint::Checkpoint saved(folder);
  const auto& state = saved.state();
  if (!state.contains("config"))
    throw base::DataError("checkpoint " + folder + " was not written by a training run; it has no configuration");
  const auto& config_json = state.at("config");
  base::Violations violations;
  spec::ModelSpec spec;
  if (config_json.contains("model") && config_json.at("model").contains("model_type"))
    spec = spec::reference_models()(config_json.at("model"), "model", violations);
  const bool reference = violations.empty() && !std::holds_alternative<std::monostate>(spec);
  std::optional<spec::Gpt2Spec> gpt2;
  if (const auto* found = std::get_if<spec::Gpt2Spec>(&spec); reference && found) gpt2 = *found;
  auto stored = built(gpt2 ? model::model_only(spec)
                           : job(spec::config_from_json(config_json, state.at("ranks").get<int>(),
                                                        reference ? spec::reference_models() : spec::own_model())),
                      gpt2);
  if (config_json.contains("data"))
    stored.data_format = base::token_format_named(config_json.at("data").value("format", "auto"));
  load_checkpoint(saved, *stored.model);
  return stored;
}

StoredModel open_export(const std::string& folder) {
  const auto config = folder + "/config.json";
  const auto gpt2 = spec::gpt2_from_huggingface(base::parse_json(base::read_regular_file(config), config), config);
  auto stored = built(model::model_only(gpt2), gpt2);
  load_export(folder + "/model.safetensors", *stored.model);
  return stored;
}

}  // namespace

StoredModel open_stored(const std::string& folder, const JobFactory& job) {
  const auto refuse = [&](const char* why) {
    throw base::DataError(folder + why + "; name the folder of a run, a checkpoint or an export");
  };
  if (!fs::exists(folder)) refuse(" does not exist");
  if (!fs::is_directory(folder)) refuse(" is a file");
  if (fs::exists(folder + "/model.safetensors")) return open_export(folder);
  if (const auto newest = checkpoint::newest(folder)) return open_checkpoint(*newest, job);
  if (!fs::exists(folder + "/manifest.json")) refuse(" holds no model");
  return open_checkpoint(folder, job);
}

train::Evaluation evaluate_stored(const StoredModel& stored, const std::string& data_path) {
  std::shared_ptr<const data::Dataset> dataset = stored.job.validation ? stored.job.validation : stored.job.training;
  if (stored.gpt2) {
    if (data_path.empty()) throw base::UsageError("eval needs data; use --data FILE");
    auto tokens = std::make_shared<const base::TokenFile>(data_path, stored.data_format);
    dataset = std::make_shared<data::TokenDataset>(tokens, data::TokenRange{0, tokens->size()},
                                                   stored.gpt2->n_positions, stored.gpt2->vocab_size);
  } else if (!data_path.empty()) {
    throw base::UsageError("--data is for gpt2 models; this job brings its own data");
  }
  if (!dataset) throw base::UsageError("the job has no data to evaluate on");
  return train::evaluate(*stored.model, stored.job, *dataset, {0, dataset->size()}, 16);
}

}  // namespace trireme::program
