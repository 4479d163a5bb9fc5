#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "trireme/layers/model.h"

namespace trireme::data_parallel {

/// Told of each gradient that autograd accumulates into a parameter. `parameter` and `user` are indices: one parameter
/// has several user tensors if it is tied.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void gradient_coming(int parameter, int user) = 0;
  /// `arrived`: whether there was a gradient at all; hooks fire for undefined ones too.
  virtual void gradient_accumulated(int parameter, int user, bool arrived) = 0;
};

/// Hooks on the nodes that accumulate the gradients of all trainable parameters; removed on destruction. They sit
/// beside a user's own hooks. Throws base::ConfigError if a parameter is hooked already: two wrappers on one model.
class GradientHooks {
 public:
  GradientHooks(const std::vector<layers::Parameter>& parameters, GradientListener& listener);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  struct Hooked;
  std::vector<Hooked> hooked_;
};

}  // namespace trireme::data_parallel
