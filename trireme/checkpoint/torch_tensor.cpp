#include "trireme/checkpoint/torch_tensor.h"

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/comm/dtype.h"

namespace trireme::checkpoint {

base::DType stored_dtype(const at::Tensor& tensor) {
  if (const auto dtype = comm::dtype_of(tensor.scalar_type())) return *dtype;
  throw base::UsageError(
      base::text_of("tensors of dtype ", c10::toString(tensor.scalar_type()), " cannot be stored in a checkpoint"));
}

LocalTensor whole_tensor(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || !tensor.is_contiguous())
    throw base::UsageError(base::text_of("tensor ", base::quoted(name),
                                         " is not contiguous memory of the CPU; it is on ", tensor.device().str(),
                                         " with strides ", tensor.strides()));
  return {name,
          tensor.sizes().vec(),
          stored_dtype(tensor),
          {},
          0,
          tensor.numel(),
          static_cast<std::byte*>(tensor.mutable_data_ptr())};
}

LocalTensor whole_tensor(const std::string& name, const at::Tensor& tensor, at::Tensor& keep) {
  keep = tensor.detach().cpu().contiguous();
  return whole_tensor(name, keep);
}

}  // namespace trireme::checkpoint
