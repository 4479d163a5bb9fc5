#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::optim {

/// Sum of squares of flat[begin, end), flat a contiguous [n] fp32 tensor on the CPU. Sums are fp64 over fixed blocks
/// that are added in order, so the result does not depend on the number of threads or on the processor. NaN and
/// infinity carry through.
double squared_norm(const at::Tensor& flat, int64_t begin, int64_t end);

/// The factor that clips a gradient of this global norm: min(1, max_norm / (norm + 1e-6)), 1 if max_norm is 0 (off).
/// It is the formula of torch.nn.utils.clip_grad_norm_; DeepSpeed divides by max(1, (norm + 1e-6) / max_norm), the same
/// number. The norm is that of the true gradient: unscaled, summed over all ranks. NaN for a norm of NaN.
double clip_factor(double norm, double max_norm);

}  // namespace trireme::optim
