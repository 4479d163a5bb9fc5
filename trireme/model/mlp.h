#pragma once

#include "trireme/layers/job.h"
#include "trireme/layers/layers.h"
#include "trireme/spec/model.h"

namespace trireme::model {

/// A multi-layer perceptron [batch, input_size] -> [batch, output_size]: num_hidden_layers times Linear and activation
/// ("hidden.0", "hidden.1", …), then Linear ("output"). Weights [out, in] start uniform in ±sqrt(3 / in), biases 0.
layers::Layers mlp(const spec::MlpSpec& spec);

/// Squared error of outputs [batch, output_size] against the batch's first target of the same shape, summed over the
/// outputs; the items are the samples.
layers::LossSum squared_error(const layers::Tensors& outputs, const data::Batch& batch);

}  // namespace trireme::model
