#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace trireme::model {

/// Inverted dropout of x, which holds `samples` samples one after the other: each element is 0 with the given
/// probability, else divided by 1 - probability. Which ones follows from (seed, step, name, index of the element in the
/// global batch) alone, see layers::forward_state(), so no layout of the ranks changes it and a recomputation draws the
/// same. Returns x itself outside training. `name` tells the dropouts of a model apart ("h.3.attn.resid_dropout").
at::Tensor keyed_dropout(const at::Tensor& x, int64_t samples, double probability, const std::string& name);

/// Whether keyed_dropout with this probability changes anything now.
bool dropout_acts(double probability);

}  // namespace trireme::model
