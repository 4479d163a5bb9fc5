#include "trireme/base/random.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

std::array<uint32_t, 2> words(uint64_t value) {
  return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
}

// The logarithm and the sine are written out, since those of the C library differ in the last bit between processors.

/// ln(u) for 0 < u <= 1, relative error below 1e-11.
inline double natural_log(double u) {
  int exponent = 0;
  double m = std::frexp(u, &exponent);
  const bool small = m < 0.70710678118654752;
  m = small ? m * 2 : m;
  exponent -= small ? 1 : 0;
  // m in [sqrt(1/2), sqrt(2)): ln(m) = 2 atanh(s), the series in s^2 < 0.0295
  const double s = (m - 1) / (m + 1);
  const double t = s * s;
  const double series =
      1 + t * (1.0 / 3 + t * (1.0 / 5 + t * (1.0 / 7 + t * (1.0 / 9 + t * (1.0 / 11 + t * (1.0 / 13))))));
  return exponent * 0.69314718055994531 + 2 * s * series;
}

struct SineCosine {
  double sine;
  double cosine;
};

/// Of the angle 2π x / 2^32, absolute error below 1e-11.
inline SineCosine sine_cosine(uint32_t x) {
  // the nearest quarter turn, and what is left: an angle in [-π/4, π/4)
  const uint32_t shifted = x + (uint32_t{1} << 29);
  const uint32_t quadrant = shifted >> 30;
  const auto rest = static_cast<int32_t>(x - (quadrant << 30));
  const double a = rest * (3.14159265358979324 / 2 / 0x1p30);
  const double t = a * a;
  const double sine =
      a * (1 - t * (1.0 / 6 - t * (1.0 / 120 - t * (1.0 / 5040 - t * (1.0 / 362880 - t * (1.0 / 39916800))))));
  const double cosine =
      1 - t * (1.0 / 2 -
               t * (1.0 / 24 - t * (1.0 / 720 - t * (1.0 / 40320 - t * (1.0 / 3628800 - t * (1.0 / 479001600))))));
  switch (quadrant & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

/// Element i is value(words of block i / 4)[i % 4].
template <class Value>
void fill(float* out, int64_t first_index, int64_t count, uint64_t key, Value value) {
  TRIREME_CHECK(first_index >= 0 && count >= 0 && count <= std::numeric_limits<int64_t>::max() - first_index,
                "first index ", first_index, ", count ", count);
  while (count > 0) {
    const auto [low, high] = words(static_cast<uint64_t>(first_index / 4));
    const std::array<float, 4> values = value(philox(words(key), {low, high, 0, 0}));
    const int64_t skipped = first_index % 4;
    const int64_t taken = std::min(count, 4 - skipped);
    for (int64_t i = 0; i < taken; ++i) out[i] = values[static_cast<size_t>(skipped + i)];
    out += taken;
    first_index += taken;
    count -= taken;
  }
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint64_t hash(uint64_t seed, std::string_view text) {
  return XXH64(text.data(), text.size(), seed);
}

uint64_t hash(uint64_t seed, uint64_t value) {
  const auto [low, high] = words(value);
  const auto random = philox(words(seed), {low, high, 2, 0});
  return uint64_t{random[1]} << 32 | random[0];
}

double uniform(uint64_t key, uint64_t index) {
  const auto [low, high] = words(index);
  const auto random = philox(words(key), {low, high, 1, 0});
  const uint64_t bits = uint64_t{random[1]} << 32 | random[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void fill_normal(float* out, int64_t first_index, int64_t count, uint64_t seed, std::string_view name, double mean,
                 double standard_deviation) {
  fill(out, first_index, count, hash(seed, name), [=](const std::array<uint32_t, 4>& random) {
    std::array<float, 4> values;
    for (size_t pair = 0; pair < 4; pair += 2) {
      const double u = (static_cast<double>(random[pair]) + 1) * 0x1p-32;
      const double radius = standard_deviation * std::sqrt(-2 * natural_log(u));
      const auto [sine, cosine] = sine_cosine(random[pair + 1]);
      values[pair] = static_cast<float>(mean + radius * cosine);
      values[pair + 1] = static_cast<float>(mean + radius * sine);
    }
    return values;
  });
}

void fill_uniform(float* out, int64_t first_index, int64_t count, uint64_t seed, std::string_view name, double low,
                  double high) {
  // rounding to float may reach `high`, which is outside
  const float top = static_cast<float>(high);
  const float last = std::nextafter(top, -std::numeric_limits<float>::infinity());
  fill(out, first_index, count, hash(seed, name), [=](const std::array<uint32_t, 4>& random) {
    std::array<float, 4> values;
    for (size_t i = 0; i < 4; ++i) {
      const auto value = static_cast<float>(low + (high - low) * (random[i] * 0x1p-32));
      values[i] = value < top || low >= high ? value : last;
    }
    return values;
  });
}

}  // namespace trireme::base
