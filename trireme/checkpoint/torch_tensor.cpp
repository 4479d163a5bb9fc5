#include "trireme/checkpoint/torch_tensor.h"

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::checkpoint {

base::DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return base::DType::F64;
    case at::kFloat:
      return base::DType::F32;
    case at::kHalf:
      return base::DType::F16;
    case at::kBFloat16:
      return base::DType::BF16;
    case at::kLong:
      return base::DType::I64;
    case at::kInt:
      return base::DType::I32;
    case at::kShort:
      return base::DType::I16;
    case at::kChar:
      return base::DType::I8;
    case at::kByte:
      return base::DType::U8;
    case at::kBool:
      return base::DType::Bool;
    default:
      throw base::UsageError(
          base::text_of("tensors of dtype ", c10::toString(tensor.scalar_type()), " cannot be stored in a checkpoint"));
  }
}

LocalTensor whole_tensor(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || !tensor.is_contiguous())
    throw base::UsageError(base::text_of("tensor ", base::quoted(name),
                                         " is not contiguous memory of the CPU; it is on ", tensor.device().str(),
                                         " with strides ", tensor.strides()));
  return {name,
          tensor.sizes().vec(),
          dtype_of(tensor),
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
