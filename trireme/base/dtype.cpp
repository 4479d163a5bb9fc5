#include "trireme/base/dtype.h"

#include <algorithm>
#include <array>

namespace trireme::base {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array<Row, 10> kRows{{{DType::F64, "F64", 8},
                                     {DType::F32, "F32", 4},
                                     {DType::F16, "F16", 2},
                                     {DType::BF16, "BF16", 2},
                                     {DType::I64, "I64", 8},
                                     {DType::I32, "I32", 4},
                                     {DType::I16, "I16", 2},
                                     {DType::I8, "I8", 1},
                                     {DType::U8, "U8", 1},
                                     {DType::Bool, "BOOL", 1}}};

const Row& row_of(DType dtype) {
  return kRows[static_cast<size_t>(dtype)];
}

static_assert(
    std::ranges::all_of(kRows, [](const Row& row) { return kRows[static_cast<size_t>(row.dtype)].name == row.name; }),
    "rows stand in the order of the enumeration");

}  // namespace

size_t size_of(DType dtype) {
  return row_of(dtype).size;
}

std::string_view name_of(DType dtype) {
  return row_of(dtype).name;
}

std::optional<DType> dtype_named(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  if (row == kRows.end()) return std::nullopt;
  return row->dtype;
}

}  // namespace trireme::base
