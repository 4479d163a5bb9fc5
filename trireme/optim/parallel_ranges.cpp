#include "trireme/optim/parallel_ranges.h"

#include <ATen/TensorIterator.h>

namespace trireme::optim {

void parallel_ranges(const at::Tensor& elements, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (elements.numel() == 0) return;
  auto* first = static_cast<const char*>(elements.const_data_ptr());
  const int64_t width = elements.element_size();
  auto iterator = at::TensorIterator::nullary_op(const_cast<at::Tensor&>(elements));
  iterator.for_each(
      [&](char** data, const int64_t* /*strides*/, int64_t columns, int64_t rows) {
        const int64_t begin = (data[0] - first) / width;
        body(begin, begin + columns * rows);
      },
      grain);
}

}  // namespace trireme::optim
