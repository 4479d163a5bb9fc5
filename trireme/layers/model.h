#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/layers/layers.h"

namespace trireme::layers {

/// One weight of a model. A tied weight has several tensors (one a layer that uses it) but one value and one gradient.
struct Parameter {
  std::string name;                 // full name, "h.0.attn.c_attn.weight"; of the first user if tied
  std::vector<at::Tensor> tensors;  // the leaves that autograd sees, at least one; equal shapes
  int layer = 0;                    // of the first user
};

struct Buffer {
  std::string name;
  at::Tensor tensor;
};

/// Some consecutive layers, built: those of one pipeline stage, or all.
class Model {
 public:
  /// Builds layers [first, last) of `layers`; last < 0: to the end. Throws base::ConfigError for a tie to a parameter
  /// that no earlier layer has or whose shape differs.
  Model(const Layers& layers, uint64_t seed, int first = 0, int last = -1);

  /// Runs the layers in order.
  Tensors forward(Tensors inputs);

  /// In registration order, each weight once.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const std::vector<std::shared_ptr<Layer>>& layers() const { return layers_; }
  void train(bool on);

 private:
  std::vector<std::shared_ptr<Layer>> layers_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
};

}  // namespace trireme::layers
