#include "trireme/comm/dtype.h"

#include <array>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

using base::DType;
constexpr std::array<std::pair<at::ScalarType, DType>, 10> kPairs{{{at::ScalarType::Double, DType::F64},
                                                                   {at::ScalarType::Float, DType::F32},
                                                                   {at::ScalarType::Half, DType::F16},
                                                                   {at::ScalarType::BFloat16, DType::BF16},
                                                                   {at::ScalarType::Long, DType::I64},
                                                                   {at::ScalarType::Int, DType::I32},
                                                                   {at::ScalarType::Short, DType::I16},
                                                                   {at::ScalarType::Char, DType::I8},
                                                                   {at::ScalarType::Byte, DType::U8},
                                                                   {at::ScalarType::Bool, DType::Bool}}};

}  // namespace

std::optional<DType> dtype_of(at::ScalarType type) {
  for (const auto& [torch_type, dtype] : kPairs)
    if (torch_type == type) return dtype;
  return std::nullopt;
}

at::ScalarType scalar_type_of(DType dtype) {
  for (const auto& [torch_type, candidate] : kPairs)
    if (candidate == dtype) return torch_type;
  TRIREME_CHECK(false, "dtype ", base::name_of(dtype));
  return at::ScalarType::Undefined;
}

}  // namespace trireme::comm
