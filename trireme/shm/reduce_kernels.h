// The element loops, included by one file for each instruction set. Only built-ins and plain loops: a template of the
// standard library instantiated here could be the copy that the linker keeps for the whole program.
//
// Each block of elements is widened to the accumulator's type, combined in rank order in the first-level cache, and
// narrowed once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/dtype.h"
#include "trireme/shm/operation.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

using trireme::base::DType;
using trireme::shm::ReduceOp;

constexpr size_t kBlock = 1024;  // elements

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// U8 accumulates in 32 bits; products stop at 256, which says "does not fit" and stays below overflow
constexpr uint32_t kTooLarge = 256;

// ---- widen and narrow ----------------------------------------------------------------------------------------------

void widen(const BFloat16* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = __builtin_bit_cast(float, static_cast<uint32_t>(in[i].bits) << 16);
}

// round to nearest even; NaN stays NaN
bool narrow(const float* in, BFloat16* out, size_t count) {
  size_t i = 0;
#if defined(__AVX2__)
  const auto eight = [](const float* from) {
    const __m256 value = _mm256_loadu_ps(from);
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, nan, is_nan), 16);
  };
  for (; i + 16 <= count; i += 16) {
    const __m256i packed = _mm256_packus_epi32(eight(in + i), eight(in + i + 8));
    // the pack works on halves of the register
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute4x64_epi64(packed, 0xd8));
  }
#endif
  for (; i < count; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, in[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    out[i].bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
  return true;
}

float widen_one(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  // 2^112 moves the exponent's bias, for subnormal numbers too
  const uint32_t finite = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f);
  const uint32_t quiet = magnitude > 0x0f800000u ? 0x400000u : 0u;
  const uint32_t special = magnitude | 0x7f800000u | quiet;
  return __builtin_bit_cast(float, sign | (magnitude >= 0x0f800000u ? special : finite));
}

Float16 narrow_one(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const uint32_t shifted = magnitude - (112u << 23);
  const uint32_t normal = (shifted + 0xfffu + ((shifted >> 13) & 1u)) >> 13;
  // below 2^-14 the addition of 0.5 puts the bits where they belong and rounds them
  const float small = __builtin_bit_cast(float, magnitude < 0x38800000u ? magnitude : 0u) + 0.5f;
  const uint32_t subnormal = __builtin_bit_cast(uint32_t, small) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? nan : half;
  return {static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u))};
}

void widen(const Float16* in, float* out, size_t count) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
#endif
  for (; i < count; ++i) out[i] = widen_one(in[i]);
}

bool narrow(const float* in, Float16* out, size_t count) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#endif
  for (; i < count; ++i) out[i] = narrow_one(in[i]);
  return true;
}

void widen(const uint8_t* in, uint32_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = in[i];
}

bool narrow(const uint32_t* in, uint8_t* out, size_t count) {
  uint32_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    most = in[i] > most ? in[i] : most;
    out[i] = static_cast<uint8_t>(in[i]);
  }
  return most < kTooLarge;
}

// ---- combine -------------------------------------------------------------------------------------------------------

struct Sum {
  static float of(float a, float b) { return a + b; }
  static double of(double a, double b) { return a + b; }
  static uint32_t of(uint32_t a, uint32_t b) { return a + b; }
  static int32_t of(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

struct Product {
  static float of(float a, float b) { return a * b; }
  static double of(double a, double b) { return a * b; }
  static uint32_t of(uint32_t a, uint32_t b) { return a * b < kTooLarge ? a * b : kTooLarge; }
  static int32_t of(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  }
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

// a NaN on either side is kept, the later one if both are
struct Min {
  template <class T>
  static T of(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

struct Max {
  template <class T>
  static T of(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

// ivdep: `out` may be `a` or `b`, which carries nothing from one element to the next
template <class Op, class T>
void combine(const T* a, const T* b, T* out, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = Op::of(a[i], b[i]);
}

template <class T>
void divide(T* values, size_t count, size_t ranks) {
  const T divisor = static_cast<T>(ranks);
  for (size_t i = 0; i < count; ++i) values[i] /= divisor;
}

// ---- one reduction -------------------------------------------------------------------------------------------------

/// Elements that are their own accumulator: the last combination stores to the destination.
template <class T, class Op>
bool reduce_direct(const std::byte* const* sources, size_t ranks, std::byte* destination, size_t count, bool average) {
  T accumulator[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t length = count - begin < kBlock ? count - begin : kBlock;
    T* out = reinterpret_cast<T*>(destination) + begin;
    const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
    if (ranks == 1 && first != out) __builtin_memcpy(out, first, length * sizeof(T));
    for (size_t rank = 1; rank < ranks; ++rank) {
      const T* next = reinterpret_cast<const T*>(sources[rank]) + begin;
      combine<Op>(rank == 1 ? first : accumulator, next, rank + 1 == ranks ? out : accumulator, length);
    }
    if constexpr (static_cast<T>(0.5) != 0) {
      if (average) divide(out, length, ranks);
    }
  }
  return true;
}

/// Elements with a wider accumulator.
template <class T, class Wide, class Op>
bool reduce_widened(const std::byte* const* sources, size_t ranks, std::byte* destination, size_t count, bool average) {
  Wide accumulator[kBlock];
  Wide next[kBlock];
  bool fits = true;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t length = count - begin < kBlock ? count - begin : kBlock;
    widen(reinterpret_cast<const T*>(sources[0]) + begin, accumulator, length);
    for (size_t rank = 1; rank < ranks; ++rank) {
      widen(reinterpret_cast<const T*>(sources[rank]) + begin, next, length);
      combine<Op>(accumulator, next, accumulator, length);
    }
    if (average) divide(accumulator, length, ranks);
    fits &= narrow(accumulator, reinterpret_cast<T*>(destination) + begin, length);
  }
  return fits;
}

template <class Op>
bool reduce_with(const std::byte* const* sources, size_t ranks, std::byte* destination, size_t count, DType dtype,
                 bool average) {
  switch (dtype) {
    case DType::F64:
      return reduce_direct<double, Op>(sources, ranks, destination, count, average);
    case DType::F32:
      return reduce_direct<float, Op>(sources, ranks, destination, count, average);
    case DType::I64:
      return reduce_direct<int64_t, Op>(sources, ranks, destination, count, average);
    case DType::I32:
      return reduce_direct<int32_t, Op>(sources, ranks, destination, count, average);
    case DType::F16:
      return reduce_widened<Float16, float, Op>(sources, ranks, destination, count, average);
    case DType::BF16:
      return reduce_widened<BFloat16, float, Op>(sources, ranks, destination, count, average);
    case DType::U8:
    case DType::Bool:
      return reduce_widened<uint8_t, uint32_t, Op>(sources, ranks, destination, count, average);
    case DType::I16:
    case DType::I8:
      break;
  }
  return false;
}

bool reduce_here(const std::byte* const* sources, size_t ranks, std::byte* destination, size_t count, DType dtype,
                 ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return reduce_with<Sum>(sources, ranks, destination, count, dtype, false);
    case ReduceOp::Average:
      return reduce_with<Sum>(sources, ranks, destination, count, dtype, true);
    case ReduceOp::Min:
      return reduce_with<Min>(sources, ranks, destination, count, dtype, false);
    case ReduceOp::Max:
      return reduce_with<Max>(sources, ranks, destination, count, dtype, false);
    case ReduceOp::Product:
      return reduce_with<Product>(sources, ranks, destination, count, dtype, false);
  }
  return false;
}

}  // namespace
