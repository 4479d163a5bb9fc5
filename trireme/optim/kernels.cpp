#include "trireme/optim/kernels.h"

#include <cmath>

namespace trireme::optim {
namespace {

// Each loop is written once and inlined into one function an instruction set, where the compiler vectorises it.
#define TRIREME_LOOP [[gnu::always_inline]] inline

TRIREME_LOOP void adam_loop(float* __restrict parameters, const float* __restrict gradients, float* __restrict exp_avg,
                            float* __restrict exp_avg_sq, int64_t count, const AdamTerms& terms) {
  const AdamTerms t = terms;
  for (int64_t i = 0; i < count; ++i) {
    float w = parameters[i];
    float g = gradients[i] * t.gradient_scale + t.l2 * w;
    float m = t.beta1 * exp_avg[i] + t.one_minus_beta1 * g;
    float v = t.beta2 * exp_avg_sq[i] + t.one_minus_beta2 * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    parameters[i] = w * t.kept - t.step_size * m / (std::sqrt(v) * t.inverse_correction2 + t.eps);
  }
}

template <SgdRule rule>
TRIREME_LOOP void sgd_rule_loop(float* __restrict parameters, const float* __restrict gradients,
                                float* __restrict buffer, int64_t count, const SgdTerms& terms) {
  const SgdTerms t = terms;
  for (int64_t i = 0; i < count; ++i) {
    float w = parameters[i];
    float g = gradients[i] * t.gradient_scale + t.l2 * w;
    float direction = g;
    if constexpr (rule != SgdRule::Plain) {
      constexpr bool first = rule == SgdRule::MomentumFirstStep || rule == SgdRule::NesterovFirstStep;
      constexpr bool nesterov = rule == SgdRule::NesterovFirstStep || rule == SgdRule::Nesterov;
      float b = first ? g : t.momentum * buffer[i] + t.one_minus_dampening * g;
      buffer[i] = b;
      direction = nesterov ? g + t.momentum * b : b;
    }
    parameters[i] = w - t.learning_rate * direction;
  }
}

TRIREME_LOOP void sgd_loop(float* parameters, const float* gradients, float* buffer, int64_t count,
                           const SgdTerms& terms, SgdRule rule) {
  switch (rule) {
    case SgdRule::Plain:
      return sgd_rule_loop<SgdRule::Plain>(parameters, gradients, buffer, count, terms);
    case SgdRule::MomentumFirstStep:
      return sgd_rule_loop<SgdRule::MomentumFirstStep>(parameters, gradients, buffer, count, terms);
    case SgdRule::Momentum:
      return sgd_rule_loop<SgdRule::Momentum>(parameters, gradients, buffer, count, terms);
    case SgdRule::NesterovFirstStep:
      return sgd_rule_loop<SgdRule::NesterovFirstStep>(parameters, gradients, buffer, count, terms);
    case SgdRule::Nesterov:
      return sgd_rule_loop<SgdRule::Nesterov>(parameters, gradients, buffer, count, terms);
  }
}

TRIREME_LOOP double squared_sum_loop(const float* __restrict values, int64_t count) {
  // a fixed number of partial sums, so that every instruction set adds in the same order
  constexpr int64_t kLanes = 32;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += double(values[i]) * double(values[i]);
  double sum = 0;
  for (double part : sums) sum += part;
  return sum;
}

// NAME, then the attribute that selects the instruction set
#define TRIREME_VARIANT(name, attribute)                                                                   \
  attribute void adam_##name(float* parameters, const float* gradients, float* exp_avg, float* exp_avg_sq, \
                             int64_t count, const AdamTerms& terms) {                                      \
    adam_loop(parameters, gradients, exp_avg, exp_avg_sq, count, terms);                                   \
  }                                                                                                        \
  attribute void sgd_##name(float* parameters, const float* gradients, float* buffer, int64_t count,       \
                            const SgdTerms& terms, SgdRule rule) {                                         \
    sgd_loop(parameters, gradients, buffer, count, terms, rule);                                           \
  }                                                                                                        \
  attribute double squared_sum_##name(const float* values, int64_t count) {                                \
    return squared_sum_loop(values, count);                                                                \
  }                                                                                                        \
  constexpr Kernels name{adam_##name, sgd_##name, squared_sum_##name};

TRIREME_VARIANT(baseline, )
#if defined(__x86_64__)
TRIREME_VARIANT(avx2, [[gnu::target("avx2")]])
TRIREME_VARIANT(avx512, [[gnu::target("avx512f,avx512dq,avx512vl")]])
#endif

}  // namespace

int kernel_variants(Kernels out[3]) {
  int found = 0;
  out[found++] = baseline;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) out[found++] = avx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    out[found++] = avx512;
  }
#endif
  return found;
}

const Kernels& kernels() {
  static const Kernels chosen = [] {
    Kernels variants[3];
    int found = kernel_variants(variants);
    return variants[found - 1];
  }();
  return chosen;
}

}  // namespace trireme::optim
