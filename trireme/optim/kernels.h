#pragma once

#include <cstdint>

// The inner loops of the optimizers: no torch, one thread. Each comes for AVX-512, AVX2 and the baseline, chosen once
// from cpuid; all variants give the same bits, since no product and sum are contracted into one rounding.
namespace trireme::optim {

/// The terms of one Adam update that do not depend on the element.
struct AdamTerms {
  float gradient_scale;
  float kept;  ///< 1 - lr * weight_decay if decoupled, else 1
  float l2;    ///< weight_decay if not decoupled, else 0
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float inverse_correction2;  ///< 1 / sqrt(1 - beta2^step)
  float eps;
  float step_size;  ///< lr / (1 - beta1^step)
};

struct SgdTerms {
  float gradient_scale;
  float l2;
  float momentum;
  float one_minus_dampening;
  float learning_rate;
};

/// Where the SGD update takes its direction from.
enum class SgdRule { Plain, MomentumFirstStep, Momentum, NesterovFirstStep, Nesterov };

struct Kernels {
  void (*adam)(float* parameters, const float* gradients, float* exp_avg, float* exp_avg_sq, int64_t count,
               const AdamTerms& terms);
  /// buffer is the momentum buffer, not read or written by SgdRule::Plain.
  void (*sgd)(float* parameters, const float* gradients, float* buffer, int64_t count, const SgdTerms& terms,
              SgdRule rule);
  double (*squared_sum)(const float* values, int64_t count);
};

/// The fastest variant that this processor runs.
const Kernels& kernels();

/// All variants that this processor runs, the baseline first.
int kernel_variants(Kernels out[3]);

}  // namespace trireme::optim
