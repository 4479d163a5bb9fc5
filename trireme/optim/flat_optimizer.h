#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/spec/config.h"

// Optimizers on flat ranges: one pass over memory instead of one kernel a parameter and term.
namespace trireme::optim {

/// A contiguous run of parameters with the same rules. Segments are in ascending order and do not overlap; what lies
/// between them is padding, which a step neither reads nor writes.
struct Segment {
  int64_t begin = 0;  ///< elements of the flat range
  int64_t end = 0;
  bool decay = true;    ///< false: weight_decay is 0 here
  double lr_scale = 1;  ///< multiplies the learning rate here
};

/// Adam, AdamW or SGD over one fp32 range. The update rules are those of torch::optim, term by term:
///  - "adamw", and "adam" with decoupled_decay (DeepSpeed's adam_w_mode): w *= 1 - lr * weight_decay, then Adam's
///    update (Loshchilov and Hutter, "Decoupled Weight Decay Regularization");
///  - "adam" without decoupled_decay: weight_decay * w is added to the gradient before the moments;
///  - "sgd": weight_decay * w is added to the gradient; the first step sets the momentum buffer to that gradient, later
///    ones to momentum * buffer + (1 - dampening) * gradient.
/// Each element's result depends on nothing but its own values: not on threads, segment borders or the processor.
class FlatOptimizer {
 public:
  /// parameters and gradients: contiguous [n] fp32 tensors on the CPU, kept by reference. Allocates the state, zero.
  /// Throws ConfigError for an unknown type.
  FlatOptimizer(const spec::OptimizerConfig& config, at::Tensor parameters, at::Tensor gradients,
                std::vector<Segment> segments);

  /// One update with gradient * gradient_scale in place of the gradient, which is left as it is.
  void step(double learning_rate, double gradient_scale = 1);

  /// What a checkpoint holds beside the parameters and steps(): "exp_avg" and "exp_avg_sq", "momentum_buffer", or
  /// nothing. Each is [n] in the index space of the parameters and shares its memory with the optimizer: copy into it
  /// to load.
  struct State {
    std::string name;
    at::Tensor value;
  };
  std::vector<State> state() const { return state_; }

  /// Updates done: the counter of the bias correction, part of every checkpoint.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  enum class Rule { AdamDecoupled, AdamL2, Sgd };

  void adam_step(const Segment& segment, double learning_rate, double gradient_scale);
  void sgd_step(const Segment& segment, double learning_rate, double gradient_scale);

  spec::OptimizerConfig config_;
  Rule rule_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  std::vector<Segment> segments_;
  std::vector<State> state_;
  int64_t steps_ = 0;
};

}  // namespace trireme::optim
