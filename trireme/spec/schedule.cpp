#include "trireme/spec/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::spec {

namespace {

/// How far the warm-up has come at step k < w: 0 at the first step, below or equal 1.
double warmup_progress(const SchedulerConfig& schedule, int64_t k) {
  const double w = static_cast<double>(schedule.warmup_num_steps);
  // log(1) = 0 has no inverse; the only step of such a warm-up is its first
  if (k == 0) return 0;
  if (schedule.warmup_type == SchedulerConfig::Warmup::Linear) return static_cast<double>(k) / w;
  return 1.0 / std::log(w) * std::log(static_cast<double>(k + 1));
}

/// WarmupLR and WarmupDecayLR.
double warmup_rate(const SchedulerConfig& schedule, int64_t k) {
  double progress = 1;
  if (k < schedule.warmup_num_steps) {
    progress = warmup_progress(schedule, k);
  } else if (schedule.type == "WarmupDecayLR") {
    const double left = static_cast<double>(schedule.total_num_steps - k);
    const double decay = static_cast<double>(schedule.total_num_steps - schedule.warmup_num_steps);
    progress = std::max(0.0, left / std::max(1.0, decay));
  }
  return schedule.warmup_min_lr + (schedule.warmup_max_lr - schedule.warmup_min_lr) * progress;
}

/// WarmupCosineLR, as a fraction of the optimizer's rate.
double cosine_ratio(const SchedulerConfig& schedule, int64_t k) {
  if (k < schedule.warmup_num_steps) {
    return schedule.warmup_min_ratio + (1 - schedule.warmup_min_ratio) * warmup_progress(schedule, k);
  }
  // a warm-up of 0 is one of 1 whose only step runs at the peak already
  const int64_t warmup = std::max<int64_t>(1, schedule.warmup_num_steps);
  const double done = static_cast<double>(k - warmup + 1);
  const double total = std::max(1.0, static_cast<double>(schedule.total_num_steps - warmup));
  const double fraction = (1 + std::cos(std::numbers::pi * std::min(1.0, done / total))) / 2;
  return std::max(0.0, schedule.cos_min_ratio + (1 - schedule.cos_min_ratio) * fraction);
}

}  // namespace

double learning_rate_scale(const Config& config) {
  if (!config.scheduler || !config.scheduler->scale) return 1;
  const ScaleLr& scale = *config.scheduler->scale;
  const double factor = static_cast<double>(config.train_batch_size) / static_cast<double>(scale.reference_batch);
  switch (scale.rule) {
    case ScaleLr::Rule::None:
      return 1;
    case ScaleLr::Rule::Linear:
      return factor;
    case ScaleLr::Rule::Sqrt:
      return std::sqrt(factor);
  }
  return 1;
}

double learning_rate(const Config& config, int64_t step) {
  const double scale = learning_rate_scale(config);
  if (!config.scheduler || config.scheduler->type == "constant") return config.optimizer.lr * scale;
  if (config.scheduler->type == "WarmupCosineLR")
    return config.optimizer.lr * cosine_ratio(*config.scheduler, step) * scale;
  return warmup_rate(*config.scheduler, step) * scale;
}

double peak_learning_rate(const Config& config) {
  const double scale = learning_rate_scale(config);
  const bool own_peak =
      config.scheduler && (config.scheduler->type == "WarmupLR" || config.scheduler->type == "WarmupDecayLR");
  return scale * (own_peak ? config.scheduler->warmup_max_lr : config.optimizer.lr);
}

}  // namespace trireme::spec
