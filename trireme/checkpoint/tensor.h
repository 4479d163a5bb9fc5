#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"

// How a rank's memory relates to the global tensors of a checkpoint. A global tensor has a name, a dtype and an
// unpadded shape. What a rank holds of it is a list of boxes, laid one after the other, each row-major; a shard that
// ignores the shape (ZeRO) is a range of that concatenation.
namespace trireme::checkpoint {

/// A box of a global tensor: elements with begin[d] <= index[d] < end[d] in every dimension d.
struct Box {
  std::vector<int64_t> begin, end;
  bool operator==(const Box&) const = default;
};

/// Elements [begin, end) of the row-major concatenation of `boxes`, in plain contiguous memory that the caller owns.
/// No boxes = one box, the whole tensor. Fused QKV under tensor parallelism: three boxes; a column shard: one box that
/// is narrow in the last dimension; a ZeRO shard: no boxes and a range.
struct LocalTensor {
  std::string name;
  std::vector<int64_t> global_shape;
  base::DType dtype = base::DType::F32;
  std::vector<Box> boxes;
  int64_t begin = 0, end = 0;
  std::byte* data = nullptr;
};

/// A global tensor of a checkpoint.
struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  base::DType dtype = base::DType::F32;
  bool operator==(const TensorInfo&) const = default;
};

}  // namespace trireme::checkpoint
