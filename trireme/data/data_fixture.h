#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// What several tests of this module say.
namespace trireme::data {

inline std::vector<int64_t> values(const at::Tensor& tensor) {
  const int64_t* first = tensor.const_data_ptr<int64_t>();
  return {first, first + tensor.numel()};
}

inline std::vector<int64_t> sorted(std::vector<int64_t> v) {
  std::sort(v.begin(), v.end());
  return v;
}

}  // namespace trireme::data
