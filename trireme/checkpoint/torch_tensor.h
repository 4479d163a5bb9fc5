#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "trireme/base/dtype.h"
#include "trireme/checkpoint/tensor.h"

namespace trireme::checkpoint {

/// The dtype under which a tensor is stored; UsageError for one that has no name in safetensors (complex, quantised).
base::DType stored_dtype(const at::Tensor& tensor);

/// The whole of a contiguous CPU tensor under a name; points into it. UsageError if it is neither.
LocalTensor whole_tensor(const std::string& name, const at::Tensor& tensor);

/// The same, of a row-major copy on the CPU where the tensor is not one itself: `keep` holds whatever memory it is.
LocalTensor whole_tensor(const std::string& name, const at::Tensor& tensor, at::Tensor& keep);

}  // namespace trireme::checkpoint
