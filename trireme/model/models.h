#pragma once

#include "trireme/layers/job.h"
#include "trireme/spec/config.h"

namespace trireme::model {

/// The reference model of a "model" block: its layers and loss, without data. Throws base::ConfigError if the block is
/// an own job's or missing.
layers::Job model_only(const spec::ModelSpec& spec);

/// The reference model on the data that the config names: gpt2 on the windows of a token file, its tail for validation;
/// mlp on synthetic samples. Throws base::ConfigError, and base::DataError or base::SystemError for the data.
layers::Job job_for(const spec::Config& config);

/// The same for gpt2 without a file: one global batch of tokens that follow from training.seed, repeated.
layers::Job job_on_random_tokens(const spec::Config& config);

}  // namespace trireme::model
