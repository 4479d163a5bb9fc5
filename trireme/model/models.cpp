#include "trireme/model/models.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>

#include "trireme/base/error.h"
#include "trireme/base/tokens.h"
#include "trireme/data/synthetic_dataset.h"
#include "trireme/data/token_dataset.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/mlp.h"
#include "trireme/model/random_tokens.h"

namespace trireme::model {
namespace {

// tokens a sample
int64_t sequence_length(const spec::Config& config, const spec::Gpt2Spec& spec) {
  const int64_t length = config.data.sequence_length > 0 ? config.data.sequence_length : spec.n_positions;
  if (length > spec.n_positions) {
    throw base::ConfigError(base::text_of("data.sequence_length is longer than model.n_positions: ", length, " > ",
                                          spec.n_positions, "; lower the first or raise the second"));
  }
  return length;
}

void add_token_file(layers::Job& job, const spec::Config& config, const spec::Gpt2Spec& spec) {
  if (config.data.path.empty()) {
    throw base::ConfigError("no training data is given; name a file of text or tokens with --data or data.path");
  }
  const auto file = std::make_shared<base::TokenFile>(config.data.path, base::token_format_named(config.data.format));
  const int64_t length = sequence_length(config, spec);
  const auto parts = [&] {
    try {
      return data::split(file->size(), config.data.validation_fraction, length);
    } catch (const base::DataError& error) {
      throw base::DataError(config.data.path + ": " + error.what());
    }
  }();
  job.training = std::make_shared<data::TokenDataset>(file, parts.training, length, spec.vocab_size);
  if (parts.validation.size() > 0) {
    job.validation = std::make_shared<data::TokenDataset>(file, parts.validation, length, spec.vocab_size);
  }
}

void add_synthetic_samples(layers::Job& job, const spec::Config& config, const spec::MlpSpec& spec) {
  data::SyntheticOptions options;
  options.inputs = spec.input_size;
  options.outputs = spec.output_size;
  options.samples = config.data.samples;
  options.seed = static_cast<uint64_t>(config.training.seed);
  job.training = std::make_shared<data::SyntheticDataset>(options);
  if (config.data.validation_fraction > 0) {
    options.first = options.samples;
    options.samples = std::max<int64_t>(1, std::llround(options.samples * config.data.validation_fraction));
    job.validation = std::make_shared<data::SyntheticDataset>(options);
  }
}

}  // namespace

layers::Job model_only(const spec::ModelSpec& spec) {
  layers::Job job;
  if (const auto* gpt2_spec = std::get_if<spec::Gpt2Spec>(&spec)) {
    job.layers = gpt2(*gpt2_spec);
    job.loss = next_token_loss;
    job.export_config = spec::huggingface_config(*gpt2_spec);
  } else if (const auto* mlp_spec = std::get_if<spec::MlpSpec>(&spec)) {
    job.layers = mlp(*mlp_spec);
    job.loss = squared_error;
    job.export_config = {{"model_type", "mlp"},
                         {"input_size", mlp_spec->input_size},
                         {"hidden_size", mlp_spec->hidden_size},
                         {"output_size", mlp_spec->output_size},
                         {"num_hidden_layers", mlp_spec->num_hidden_layers},
                         {"activation_function", mlp_spec->activation_function}};
  } else {
    throw base::ConfigError("the configuration names no reference model; give model.model_type \"gpt2\" or \"mlp\"");
  }
  return job;
}

layers::Job job_for(const spec::Config& config) {
  layers::Job job = model_only(config.model);
  if (const auto* gpt2_spec = std::get_if<spec::Gpt2Spec>(&config.model)) add_token_file(job, config, *gpt2_spec);
  if (const auto* mlp_spec = std::get_if<spec::MlpSpec>(&config.model)) add_synthetic_samples(job, config, *mlp_spec);
  return job;
}

layers::Job job_on_random_tokens(const spec::Config& config) {
  layers::Job job = model_only(config.model);
  const auto* spec = std::get_if<spec::Gpt2Spec>(&config.model);
  if (spec == nullptr) throw base::ConfigError("random tokens are for model_type \"gpt2\" alone");
  job.training =
      std::make_shared<RandomTokens>(std::max<int64_t>(config.train_batch_size, 1), sequence_length(config, *spec),
                                     spec->vocab_size, static_cast<uint64_t>(config.training.seed));
  return job;
}

}  // namespace trireme::model
