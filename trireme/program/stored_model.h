#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/base/tokens.h"
#include "trireme/layers/model.h"
#include "trireme/program/run.h"
#include "trireme/spec/model.h"
#include "trireme/train/evaluate.h"

namespace trireme::program {

/// A trained model from disk, in evaluation mode.
struct StoredModel {
  layers::Job job;
  std::unique_ptr<layers::Model> model;
  std::optional<spec::Gpt2Spec> gpt2;                         // if it is one
  base::TokenFormat data_format = base::TokenFormat::Detect;  // of the data that it was trained on
};

/// `folder`: a run (its newest checkpoint), a checkpoint, or an export in Hugging Face's form (config.json,
/// model.safetensors with float32, float16 or bfloat16 weights). Throws base::DataError that names the file and what is
/// wrong with it.
StoredModel open_stored(const std::string& folder, const JobFactory& job);

/// gpt2: over the tokens of `data_path`, windows of n_positions inputs side by side, targets shifted by one. Another
/// job: over its validation data, or its training data if it has none; data_path must then be empty.
train::Evaluation evaluate_stored(const StoredModel& stored, const std::string& data_path);

}  // namespace trireme::program
