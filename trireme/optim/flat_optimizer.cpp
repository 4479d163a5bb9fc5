#include "trireme/optim/flat_optimizer.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/optim/kernels.h"
#include "trireme/optim/parallel_ranges.h"

namespace trireme::optim {
namespace {

constexpr int64_t kGrain = 16384;

void check_range(const at::Tensor& tensor, const char* what) {
  TRIREME_CHECK(tensor.scalar_type() == at::kFloat && tensor.is_cpu() && tensor.dim() == 1 && tensor.is_contiguous(),
                what, " must be a contiguous [n] fp32 tensor on the CPU, not ", tensor.toString());
}

}  // namespace

FlatOptimizer::FlatOptimizer(const spec::OptimizerConfig& config, at::Tensor parameters, at::Tensor gradients,
                             std::vector<Segment> segments)
    : config_(config),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)),
      segments_(std::move(segments)) {
  check_range(parameters_, "parameters");
  check_range(gradients_, "gradients");
  TRIREME_CHECK(parameters_.numel() == gradients_.numel(), "parameters ", parameters_.numel(), ", gradients ",
                gradients_.numel());
  int64_t last = 0;
  for (const Segment& segment : segments_) {
    TRIREME_CHECK(last <= segment.begin && segment.begin <= segment.end && segment.end <= parameters_.numel(),
                  "segment ", segment.begin, " to ", segment.end, " after ", last, ", range ", parameters_.numel());
    last = segment.end;
  }

  if (config_.type == "adamw" || config_.type == "adam") {
    rule_ = config_.type == "adamw" || config_.decoupled_decay ? Rule::AdamDecoupled : Rule::AdamL2;
    state_.push_back({"exp_avg", at::zeros_like(parameters_)});
    state_.push_back({"exp_avg_sq", at::zeros_like(parameters_)});
  } else if (config_.type == "sgd") {
    rule_ = Rule::Sgd;
    if (config_.momentum != 0) state_.push_back({"momentum_buffer", at::zeros_like(parameters_)});
  } else {
    throw base::ConfigError("unknown optimizer type \"" + config_.type + "\"; use adamw, adam or sgd");
  }
}

void FlatOptimizer::step(double learning_rate, double gradient_scale) {
  ++steps_;
  for (const Segment& segment : segments_) {
    if (rule_ == Rule::Sgd) {
      sgd_step(segment, learning_rate * segment.lr_scale, gradient_scale);
    } else {
      adam_step(segment, learning_rate * segment.lr_scale, gradient_scale);
    }
  }
}

void FlatOptimizer::adam_step(const Segment& segment, double learning_rate, double gradient_scale) {
  const double weight_decay = segment.decay ? config_.weight_decay : 0;
  const double correction1 = config_.bias_correction ? 1 - std::pow(config_.beta1, steps_) : 1;
  const double correction2 = config_.bias_correction ? 1 - std::pow(config_.beta2, steps_) : 1;
  const AdamTerms terms{
      .gradient_scale = float(gradient_scale),
      .kept = float(rule_ == Rule::AdamDecoupled ? 1 - learning_rate * weight_decay : 1),
      .l2 = float(rule_ == Rule::AdamL2 ? weight_decay : 0),
      .beta1 = float(config_.beta1),
      .one_minus_beta1 = float(1 - config_.beta1),
      .beta2 = float(config_.beta2),
      .one_minus_beta2 = float(1 - config_.beta2),
      .inverse_correction2 = float(1 / std::sqrt(correction2)),
      .eps = float(config_.eps),
      .step_size = float(learning_rate / correction1),
  };
  float* parameters = parameters_.mutable_data_ptr<float>() + segment.begin;
  const float* gradients = gradients_.const_data_ptr<float>() + segment.begin;
  float* exp_avg = state_[0].value.mutable_data_ptr<float>() + segment.begin;
  float* exp_avg_sq = state_[1].value.mutable_data_ptr<float>() + segment.begin;
  parallel_ranges(parameters_.slice(0, segment.begin, segment.end), kGrain, [&](int64_t begin, int64_t end) {
    kernels().adam(parameters + begin, gradients + begin, exp_avg + begin, exp_avg_sq + begin, end - begin, terms);
  });
}

void FlatOptimizer::sgd_step(const Segment& segment, double learning_rate, double gradient_scale) {
  const SgdTerms terms{
      .gradient_scale = float(gradient_scale),
      .l2 = float(segment.decay ? config_.weight_decay : 0),
      .momentum = float(config_.momentum),
      .one_minus_dampening = float(1 - config_.dampening),
      .learning_rate = float(learning_rate),
  };
  const bool first = steps_ == 1;
  SgdRule rule = SgdRule::Plain;
  if (config_.momentum != 0 && config_.nesterov) rule = first ? SgdRule::NesterovFirstStep : SgdRule::Nesterov;
  if (config_.momentum != 0 && !config_.nesterov) rule = first ? SgdRule::MomentumFirstStep : SgdRule::Momentum;
  float* parameters = parameters_.mutable_data_ptr<float>() + segment.begin;
  const float* gradients = gradients_.const_data_ptr<float>() + segment.begin;
  float* buffer = state_.empty() ? nullptr : state_[0].value.mutable_data_ptr<float>() + segment.begin;
  parallel_ranges(parameters_.slice(0, segment.begin, segment.end), kGrain, [&](int64_t begin, int64_t end) {
    kernels().sgd(parameters + begin, gradients + begin, buffer ? buffer + begin : nullptr, end - begin, terms, rule);
  });
}

}  // namespace trireme::optim
