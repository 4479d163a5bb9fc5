#include "trireme/shm/reduce.h"

#include "trireme/base/error.h"

namespace trireme::shm {
namespace {

Reduction choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && reduce_avx2() != nullptr) {
    return reduce_avx2();
  }
#endif
  return &reduce_baseline;
}

const Reduction chosen = choose();

}  // namespace

void check_reducible(base::DType dtype, ReduceOp op) {
  using base::DType;
  const auto refuse = [&](const char* remedy) {
    throw base::CommError(base::text_of("no ", name_of(op), " of ", base::name_of(dtype), " elements; ", remedy));
  };
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return;
    case DType::I64:
    case DType::I32:
    case DType::U8:
      if (op == ReduceOp::Average) refuse("it would not be an integer: sum and divide, or convert to a float first");
      return;
    case DType::Bool:
      if (op != ReduceOp::Max && op != ReduceOp::Min) refuse("use max for \"any\", min for \"all\", or convert to I32");
      return;
    case DType::I16:
    case DType::I8:
      refuse("convert to I32, which has room for the result");
  }
}

void reduce_elements(std::span<const std::byte* const> sources, std::byte* destination, size_t count, base::DType dtype,
                     ReduceOp op) {
  if (count == 0) return;
  if (!chosen(sources.data(), sources.size(), destination, count, dtype, op)) {
    throw base::CommError(base::text_of("the ", name_of(op), " of U8 elements is above 255; convert to I32 first"));
  }
}

}  // namespace trireme::shm
