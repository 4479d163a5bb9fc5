#pragma once

#include <torch/nn/module.h>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// A model as an ordered list of named layers that are built on demand, so that a pipeline stage or a ZeRO-3 shard never
// holds the whole. A layer maps a tuple of tensors to the tuple that the next one takes.
namespace trireme::layers {

using Tensors = std::vector<at::Tensor>;

/// What a layer's factory may draw its initial weights from. Weights are a function of (seed, full parameter name,
/// element index) only (base/random.h), so every layout of the ranks starts equal.
struct BuildContext {
  uint64_t seed = 0;
  std::string layer;  // the layer's name; its parameters are called "<layer>.<name>"
};

/// One layer. Parameters and buffers are registered as in any torch module.
class Layer : public torch::nn::Module {
 public:
  virtual Tensors forward(const Tensors& inputs) = 0;
};

struct LayerOptions {
  /// Pairs {"own.weight", "other.weight"}: this layer's parameter is the same weight as one of an earlier layer, in
  /// values and in gradient. Full names.
  std::vector<std::pair<std::string, std::string>> tied = {};
};

class Layers {
 public:
  using Factory = std::function<std::shared_ptr<Layer>(const BuildContext&)>;

  struct Entry {
    std::string name;
    Factory build;
    LayerOptions options;
  };

  /// Appends a layer. `name` is unique; it may hold dots ("h.0"). An empty name keeps the parameters' own names.
  /// `factory` is called with a BuildContext or with nothing and returns a Layer, or any torch module (or its holder)
  /// whose forward maps one tensor to one tensor. Before a module that is not a Layer is built, the default generator
  /// is seeded with a hash of (seed, name).
  template <class F>
  void add(std::string name, F factory, LayerOptions options = {});

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void append(Entry entry);
  std::vector<Entry> entries_;
};

namespace internal {
void seed_default_generator(uint64_t seed, const std::string& layer);

// a plain torch module in the clothes of a Layer; its parameters keep their names
template <class Plain>
class Wrapped final : public Layer {
 public:
  explicit Wrapped(std::shared_ptr<Plain> module) : module_(std::move(module)) {
    for (auto& item : module_->named_parameters(false))
      register_parameter(item.key(), item.value(), item.value().requires_grad());
    for (auto& item : module_->named_buffers(false)) register_buffer(item.key(), item.value());
    for (auto& item : module_->named_children()) register_module(item.key(), item.value());
  }
  Tensors forward(const Tensors& inputs) override { return {module_->forward(inputs.at(0))}; }
  void train(bool on) override {
    Layer::train(on);
    module_->train(on);
  }

 private:
  std::shared_ptr<Plain> module_;
};

template <class M>
std::shared_ptr<Layer> as_layer(std::shared_ptr<M> module) {
  if constexpr (std::derived_from<M, Layer>)
    return module;
  else
    return std::make_shared<Wrapped<M>>(std::move(module));
}
template <class Holder>
requires requires(Holder h) {
  h.ptr();
}
std::shared_ptr<Layer> as_layer(Holder holder) {
  return as_layer(holder.ptr());
}
}  // namespace internal

template <class F>
void Layers::add(std::string name, F factory, LayerOptions options) {
  auto build = [factory = std::move(factory)](const BuildContext& context) -> std::shared_ptr<Layer> {
    internal::seed_default_generator(context.seed, context.layer);
    if constexpr (std::invocable<F, const BuildContext&>)
      return internal::as_layer(factory(context));
    else
      return internal::as_layer(factory());
  };
  append({std::move(name), std::move(build), std::move(options)});
}

}  // namespace trireme::layers
