#include "trireme/data_parallel/gather.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::data_parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Identity in forward; backward tells the gatherer that the gradients have come this far.
enum class Passing { IntoLayer, OutOfLayer };

struct Gate : torch::autograd::Function<Gate> {
  static variable_list forward(AutogradContext* context, at::TensorList tensors, int64_t gatherer, int64_t layer,
                               int64_t passing) {
    context->saved_data["gatherer"] = gatherer;
    context->saved_data["layer"] = layer;
    context->saved_data["passing"] = passing;
    variable_list outputs;
    for (const auto& tensor : tensors) outputs.push_back(tensor.view_as(tensor));
    return outputs;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto* gatherer = reinterpret_cast<GatheredParameters*>(context->saved_data["gatherer"].toInt());
    const int layer = static_cast<int>(context->saved_data["layer"].toInt());
    if (context->saved_data["passing"].toInt() == static_cast<int64_t>(Passing::IntoLayer))
      gatherer->gather(layer);
    else
      gatherer->release(layer);
    gradients.insert(gradients.end(), 3, at::Tensor());
    return gradients;
  }
};

layers::Tensors gated(const layers::Tensors& tensors, GatheredParameters* gatherer, int layer, Passing passing) {
  const bool differentiable =
      std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  if (!differentiable) return tensors;
  return Gate::apply(at::TensorList(tensors), reinterpret_cast<int64_t>(gatherer), static_cast<int64_t>(layer),
                     static_cast<int64_t>(passing));
}

}  // namespace

GatheredParameters::GatheredParameters(const layers::Model& model, const layers::FlatLayout& layout, comm::Group group)
    : layout_(layout), group_(std::move(group)), units_of_layer_(model.layers().size()) {
  at::NoGradGuard no_grad;
  const auto& parameters = model.parameters();
  shards_.resize(layout_.spaces.size());
  for (size_t s = 0; s < layout_.spaces.size(); ++s)
    for (size_t b = 0; b < layout_.spaces[s].buckets.size(); ++b) {
      const auto& bucket = layout_.spaces[s].buckets[b];
      Unit unit;
      unit.space = static_cast<int>(s);
      unit.bucket = static_cast<int>(b);
      unit.whole = at::zeros({bucket.end - bucket.begin}, at::TensorOptions().dtype(layout_.spaces[s].dtype));
      for (int p : bucket.parameters) {
        const auto& tensor = parameters[p].tensors[0];
        auto slot = unit.whole.narrow(0, layout_.slots[p].begin - bucket.begin, tensor.numel()).view(tensor.sizes());
        slot.copy_(tensor);
        for (auto user : parameters[p].tensors) user.set_data(slot);
        auto& units = units_of_layer_[parameters[p].layer];
        const int index = static_cast<int>(units_.size());
        if (std::find(units.begin(), units.end(), index) == units.end()) units.push_back(index);
        unit.names += (unit.names.empty() ? "" : ", ") + parameters[p].name;
      }
      const auto share = bucket.share(group_.size());
      shards_[s].push_back(unit.whole.narrow(0, group_.rank() * share, share).clone());
      empty(unit);
      units_.push_back(std::move(unit));
    }
}

void GatheredParameters::gather(int layer) {
  for (int u : units_of_layer_[layer])
    if (units_[u].users++ == 0) fill(units_[u]);
}

void GatheredParameters::release(int layer) {
  for (int u : units_of_layer_[layer])
    if (units_[u].users > 0 && --units_[u].users == 0) empty(units_[u]);
}

void GatheredParameters::release_all() {
  for (auto& unit : units_)
    if (std::exchange(unit.users, 0) > 0) empty(unit);
}

void GatheredParameters::fill(Unit& unit) {
  auto* storage = unit.whole.storage().unsafeGetStorageImpl();
  auto memory = c10::GetAllocator(c10::DeviceType::CPU)->allocate(storage->nbytes());
  storage->clear_data_ptr_access_error_msg_();
  storage->set_data_ptr_noswap(std::move(memory));
  at::NoGradGuard no_grad;
  group_.all_gather_into_tensor(unit.whole, shards_[unit.space][unit.bucket]).wait();
}

void GatheredParameters::empty(Unit& unit) {
  unit.whole.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_("not gathered: " +
                                                                                                    unit.names);
}

layers::Tensors GatheredParameters::forward(layers::Model& model, layers::Tensors inputs) {
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const int layer = static_cast<int>(i);
    gather(layer);
    inputs = gated(inputs, this, layer, Passing::OutOfLayer);
    inputs = gated(model.layers()[i]->forward(inputs), this, layer, Passing::IntoLayer);
    release(layer);
  }
  return inputs;
}

}  // namespace trireme::data_parallel
