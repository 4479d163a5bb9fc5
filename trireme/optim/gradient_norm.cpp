#include "trireme/optim/gradient_norm.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/optim/kernels.h"
#include "trireme/optim/parallel_ranges.h"

namespace trireme::optim {

double squared_norm(const at::Tensor& flat, int64_t begin, int64_t end) {
  TRIREME_CHECK(flat.scalar_type() == at::kFloat && flat.is_cpu() && flat.dim() == 1 && flat.is_contiguous(),
                "squared_norm wants a contiguous [n] fp32 tensor on the CPU, not ", flat.toString());
  TRIREME_CHECK(0 <= begin && begin <= end && end <= flat.numel(), "range ", begin, " to ", end, " of ", flat.numel());

  constexpr int64_t kBlock = 32768;
  constexpr int64_t kBlocksAThread = 1;
  const float* values = flat.const_data_ptr<float>() + begin;
  const int64_t count = end - begin;
  at::Tensor partials = at::empty({(count + kBlock - 1) / kBlock}, at::kDouble);
  double* partial = partials.mutable_data_ptr<double>();
  parallel_ranges(partials, kBlocksAThread, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      partial[block] = kernels().squared_sum(values + block * kBlock, std::min(kBlock, count - block * kBlock));
    }
  });

  double sum = 0;
  for (int64_t block = 0; block < partials.numel(); ++block) sum += partial[block];
  return sum;
}

double clip_factor(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

}  // namespace trireme::optim
