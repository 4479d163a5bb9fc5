#include "trireme/layers/model.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::layers {
namespace {

std::string full_name(const std::string& layer, const std::string& own) {
  return layer.empty() ? own : layer + "." + own;
}

// "head.weight" tied to "wte.weight" -> the name of the weight it shares; its own name otherwise
std::string shared_name(const LayerOptions& options, const std::string& name) {
  for (const auto& [own, other] : options.tied)
    if (own == name) return other;
  return name;
}

}  // namespace

Model::Model(const Layers& layers, uint64_t seed, int first, int last) {
  const auto& entries = layers.entries();
  if (last < 0) last = static_cast<int>(entries.size());
  TRIREME_CHECK(0 <= first && first <= last && last <= static_cast<int>(entries.size()), first, " ", last);
  for (int i = first; i < last; ++i) {
    const auto& entry = entries[i];
    auto layer = entry.build({seed, entry.name});
    layers_.push_back(layer);
    const auto own_parameters = layer->named_parameters();
    for (const auto& [own, other] : entry.options.tied)
      if (std::none_of(own_parameters.begin(), own_parameters.end(),
                       [&](const auto& item) { return full_name(entry.name, item.key()) == own; }))
        throw base::ConfigError("layer '" + entry.name + "' ties '" + own + "', which is no parameter of it");
    for (const auto& item : own_parameters) {
      const auto name = full_name(entry.name, item.key());
      const auto target = shared_name(entry.options, name);
      auto known =
          std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.name == target; });
      if (target == name) {
        parameters_.push_back({name, {item.value()}, i - first});
        continue;
      }
      if (known == parameters_.end())
        throw base::ConfigError("layer '" + entry.name + "' ties " + name + " to " + target +
                                ", which no earlier layer has");
      if (known->tensors[0].sizes() != item.value().sizes())
        throw base::ConfigError(base::text_of("layer '", entry.name, "' ties ", name, " ", item.value().sizes(), " to ",
                                              target, " ", known->tensors[0].sizes(), "; the shapes differ"));
      known->tensors.push_back(item.value());
    }
    for (const auto& item : layer->named_buffers())
      buffers_.push_back({full_name(entry.name, item.key()), item.value()});
  }
}

Tensors Model::forward(Tensors inputs) {
  for (auto& layer : layers_) inputs = layer->forward(inputs);
  return inputs;
}

void Model::train(bool on) {
  for (auto& layer : layers_) layer->train(on);
}

}  // namespace trireme::layers
