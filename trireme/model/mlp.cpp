#include "trireme/model/mlp.h"

#include <torch/torch.h>

#include <cmath>
#include <string>

#include "trireme/base/random.h"

namespace trireme::model {
namespace {

using layers::BuildContext;
using layers::Tensors;

// activation(x W^T + b); no activation if its name is empty
class Dense : public layers::Layer {
 public:
  Dense(const BuildContext& context, int64_t in, int64_t out, std::string activation)
      : activation_(std::move(activation)) {
    at::Tensor weight = at::empty({out, in});
    const double bound = std::sqrt(3.0 / double(in));
    base::fill_uniform(weight.mutable_data_ptr<float>(), 0, weight.numel(), context.seed, context.layer + ".weight",
                       -bound, bound);
    weight_ = register_parameter("weight", weight);
    bias_ = register_parameter("bias", at::zeros({out}));
  }

  Tensors forward(const Tensors& inputs) override {
    at::Tensor y = at::linear(inputs[0], weight_, bias_);
    if (activation_ == "relu") y = at::relu(y);
    if (activation_ == "tanh") y = at::tanh(y);
    if (activation_ == "gelu") y = at::gelu(y);
    return {y};
  }

 private:
  std::string activation_;
  at::Tensor weight_;
  at::Tensor bias_;
};

}  // namespace

layers::Layers mlp(const spec::MlpSpec& spec) {
  layers::Layers result;
  int64_t width = spec.input_size;
  for (int64_t i = 0; i < spec.num_hidden_layers; ++i) {
    result.add("hidden." + std::to_string(i), [spec, width](const BuildContext& context) {
      return std::make_shared<Dense>(context, width, spec.hidden_size, spec.activation_function);
    });
    width = spec.hidden_size;
  }
  result.add("output", [spec, width](const BuildContext& context) {
    return std::make_shared<Dense>(context, width, spec.output_size, "");
  });
  return result;
}

layers::LossSum squared_error(const Tensors& outputs, const data::Batch& batch) {
  const at::Tensor& target = batch.targets.at(0);
  return {at::mse_loss(outputs.at(0), target, at::Reduction::Sum), target.size(0)};
}

}  // namespace trireme::model
