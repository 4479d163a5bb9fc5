#pragma once

#include <cstdint>
#include <string>

#include "trireme/spec/config.h"

// Learning-rate schedules with DeepSpeed's formulas (deepspeed/runtime/lr_schedules.py), as pure functions.
//
// With k = optimizer steps done before this one, w = warmup_num_steps, T = total_num_steps:
//
//   warm-up, k < w      g = k / w (linear) or log(k + 1) / log(w) (log)
//   WarmupLR            min + (max - min) * g,     afterwards g = 1
//   WarmupDecayLR       min + (max - min) * g,     afterwards g = max(0, (T - k) / max(1, T - w))
//   WarmupCosineLR      lr * (min_ratio + (1 - min_ratio) * g), afterwards lr * (cos_min + (1 - cos_min) *
//                       (1 + cos(pi * p)) / 2) with p = min(1, (k - w + 1) / max(1, T - w))
//
// The rate of k is the one that DeepSpeed prints after step k + 1; its update itself runs one step late. w = 0 begins
// at the peak (a cosine then spends its first step there), w = 1 reaches the peak after one step; DeepSpeed refuses the
// first and turns the second into 2.
namespace trireme::spec {

/// The rate of the optimizer step that follows `step` finished ones; finite for any step >= 0.
double learning_rate(const Config& config, int64_t step);

/// The factor that scale_lr_with_batch puts on every rate: 1 without it.
double learning_rate_scale(const Config& config);

/// The highest rate of the schedule, scaled.
double peak_learning_rate(const Config& config);

}  // namespace trireme::spec
