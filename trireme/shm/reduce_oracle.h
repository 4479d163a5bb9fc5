#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "trireme/shm/operation.h"

// For tests: 16-bit floats by arithmetic on their definition, and the value that one combination must have.
namespace trireme::shm::oracle {

inline float widened(uint16_t bits, base::DType dtype) {
  if (dtype == base::DType::BF16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

/// Nearest value of the format, ties to even; not for NaN.
inline uint16_t narrowed(float value, base::DType dtype) {
  const int digits = dtype == base::DType::F16 ? 11 : 8;
  const int least = dtype == base::DType::F16 ? -14 : -126;
  const double largest = dtype == base::DType::F16 ? 65504 : 3.3895313892515355e38;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(value));
  const uint16_t infinity = dtype == base::DType::F16 ? 0x7c00 : 0x7f80;
  if (magnitude == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  const int exponent = std::max(std::ilogb(magnitude), least);
  const double unit = std::ldexp(1.0, exponent - digits + 1);
  const double rounded = std::nearbyint(magnitude / unit) * unit;
  if (rounded > largest) return sign | infinity;
  if (rounded == 0) return sign;
  const int final_exponent = std::max(std::ilogb(rounded), least);
  const auto significand = static_cast<uint32_t>(std::ldexp(rounded, digits - 1 - final_exponent));
  // a subnormal's significand lacks the leading bit, so that the same sum gives exponent 0
  const uint32_t biased = static_cast<uint32_t>(final_exponent - least + 1) << (digits - 1);
  return static_cast<uint16_t>(sign | (biased + significand - (1u << (digits - 1))));
}

/// Of `ranks` values all but `b` are in `a`; the average is divided at once.
template <class T>
T combined(T a, T b, ReduceOp op, int ranks) {
  switch (op) {
    case ReduceOp::Sum:
      return a + b;
    case ReduceOp::Average:
      return (a + b) / static_cast<T>(ranks);
    case ReduceOp::Product:
      return a * b;
    case ReduceOp::Min:
      return a != a || b != b ? a + b : (b < a ? b : a);
    case ReduceOp::Max:
      return a != a || b != b ? a + b : (b > a ? b : a);
  }
  return a;
}

}  // namespace trireme::shm::oracle
