#include "trireme/data/dataset.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme::data {
namespace {

using base::DataError;
using base::text_of;

// The index of the first value that is NaN or infinite, or -1.
template <class T>
int64_t first_non_finite(const at::Tensor& tensor) {
  const T* values = tensor.const_data_ptr<T>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (!std::isfinite(static_cast<double>(values[i]))) return i;
  }
  return -1;
}

int64_t first_non_finite(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return first_non_finite<float>(tensor);
    case at::kDouble:
      return first_non_finite<double>(tensor);
    case at::kHalf:
      return first_non_finite<at::Half>(tensor);
    case at::kBFloat16:
      return first_non_finite<at::BFloat16>(tensor);
    default:
      return -1;
  }
}

template <class Check>
void for_each_tensor(const Batch& batch, Check check) {
  for (size_t i = 0; i < batch.inputs.size(); ++i) check("input", i, batch.inputs[i]);
  for (size_t i = 0; i < batch.targets.size(); ++i) check("target", i, batch.targets[i]);
}

}  // namespace

Batch Dataset::batch_in_epoch(std::span<const int64_t> samples, int64_t /*epoch*/) const {
  return batch(samples);
}

void check_finite(const Batch& batch, std::span<const int64_t> samples) {
  for_each_tensor(batch, [&](std::string_view kind, size_t index, const at::Tensor& tensor) {
    if (!tensor.device().is_cpu()) return;
    const at::Tensor values = tensor.contiguous();
    const int64_t at = first_non_finite(values);
    if (at < 0) return;
    const int64_t each = values.numel() / values.size(0);
    throw DataError(text_of("the data holds a value that is not finite: sample ", samples[at / each], ", ", kind, " ",
                            index, ", element ", at % each, " is ", values.view(-1)[at].item<double>(),
                            "; repair or remove the sample"));
  });
}

void check_shapes(const Batch& batch, int64_t samples) {
  if (batch.samples != samples || batch.inputs.empty()) {
    throw DataError(text_of("the dataset returned a wrong batch: ", samples, " samples were asked for, it holds ",
                            batch.samples, " in ", batch.inputs.size(), " inputs"));
  }
  for_each_tensor(batch, [&](std::string_view kind, size_t index, const at::Tensor& tensor) {
    if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) == samples) return;
    throw DataError(text_of("the dataset returned a wrong batch: the first dimension of ", kind, " ", index,
                            " must be the ", samples, " samples, its shape is ",
                            tensor.defined() ? text_of(tensor.sizes()) : "undefined"));
  });
}

}  // namespace trireme::data
