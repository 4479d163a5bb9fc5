#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/base/json.h"
#include "trireme/data/dataset.h"
#include "trireme/layers/layers.h"

namespace trireme::layers {

/// The loss of some samples as a SUM over valid items and their COUNT, so that any split of a batch over micro-batches
/// and ranks adds up exactly. The mean that is reported and differentiated is sum / count over the whole global batch.
/// A loss that does not decompose over samples (contrastive, batch statistics) needs an explicit gather first.
struct LossSum {
  at::Tensor sum;     // scalar, differentiable
  int64_t count = 0;  // valid items: tokens for a language model, samples for a regression
};

/// Rules for the parameters of one name.
struct ParameterGroup {
  bool weight_decay = true;        // false: exempt from the optimizer's weight_decay
  double learning_rate_scale = 1;  // times the schedule's rate
};

/// What is trained: everything that the Trainer needs to know about a model and its data.
struct Job {
  Layers layers;
  std::shared_ptr<data::Dataset> training;
  std::shared_ptr<data::Dataset> validation;  // may be null
  /// `outputs` are those of the last layer, for the inputs of `batch`.
  std::function<LossSum(const Tensors& outputs, const data::Batch& batch)> loss;
  /// Null: every parameter decays and learns at the schedule's rate.
  std::function<ParameterGroup(const std::string& name)> parameter_group;
  /// The config.json of an export; for a Hugging Face model what transformers needs to load it.
  base::Json export_config = base::Json::object();
};

}  // namespace trireme::layers
