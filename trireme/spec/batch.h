#pragma once

#include <cstdint>

#include "trireme/base/violations.h"

namespace trireme::spec {

/// The three batch numbers; 0 means not given. Samples, samples, micro-batches.
struct BatchSizes {
  int64_t train = 0;
  int64_t micro = 0;
  int64_t accumulation = 0;

  bool operator==(const BatchSizes&) const = default;
};

/// DeepSpeed's triangle: train = micro * accumulation * data_ranks. Any two give the third; train or micro alone means
/// accumulation 1. A contradiction adds a violation with all four numbers and the nearest legal ones, and gives zeros.
BatchSizes resolve_batch(const BatchSizes& given, int64_t data_ranks, base::Violations& violations);

}  // namespace trireme::spec
