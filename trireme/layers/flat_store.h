#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/comm/group.h"
#include "trireme/layers/flat_layout.h"
#include "trireme/layers/model.h"

// Flat storage in the index space of a FlatLayout.
namespace trireme::layers {

/// The parameters as flat_layout() wants them. Throws base::ConfigError if two of them overlap in memory.
std::vector<FlatParameter> flat_parameters(const std::vector<Parameter>& parameters);

/// The gradients of the trainable parameters: one tensor a space in memory that the group moves without a copy. A
/// parameter's `.grad` aliases its slot but is no autograd view, so that zero_grad() works on it.
class FlatGradients {
 public:
  FlatGradients(std::vector<Parameter> parameters, FlatLayout layout, const comm::Group& group);

  const FlatLayout& layout() const { return layout_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool trainable(int parameter) const;

  /// [size] of a space, padding included; undefined for a frozen one.
  const at::Tensor& flat(int space) const { return flat_[space]; }
  at::Tensor bucket(int space, int bucket) const;

  /// A new tensor of the parameter's shape on its slot of `flat` (by default the gradients themselves).
  at::Tensor alias(int parameter) const { return alias(parameter, flat_[layout_.slots[parameter].space], 0); }
  /// The same on other storage of the space's dtype, in which element `origin` of the space comes first.
  at::Tensor alias(int parameter, const at::Tensor& storage, int64_t origin) const;

  /// Makes `.grad` of every tensor of the parameter an alias of its slot.
  void install(int parameter) const;
  bool installed(int parameter, const at::Tensor& tensor) const;

  void zero() const;

 private:
  std::vector<Parameter> parameters_;
  FlatLayout layout_;
  std::vector<at::Tensor> flat_;
};

/// The parameters themselves, moved into one tensor a space.
class FlatParameters {
 public:
  /// Copies the values in and points every parameter's data at its slot.
  FlatParameters(const std::vector<Parameter>& parameters, const FlatLayout& layout);

  const at::Tensor& flat(int space) const { return flat_[space]; }

  /// Throws base::ConfigError that names the first parameter whose data lies elsewhere now (model.to(...), set_data).
  void check_in_place() const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<FlatSlot> slots_;
  std::vector<at::Tensor> flat_;
};

}  // namespace trireme::layers
