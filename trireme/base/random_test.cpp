#include "trireme/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

using Words = std::array<uint32_t, 4>;

// kat_vectors of Random123, philox4x32 with 10 rounds
TEST(Philox, known_answers) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Hash, stays_as_it_is) {
  // XXH64's published values of "" and "abc"
  EXPECT_EQ(hash(0, std::string_view("")), 0xef46db3751d8e999U);
  EXPECT_EQ(hash(0, std::string_view("abc")), 0x44bc2cf5ad770999U);
  EXPECT_NE(hash(1, std::string_view("abc")), hash(0, std::string_view("abc")));
  EXPECT_NE(hash(1, uint64_t{2}), hash(2, uint64_t{1}));
  EXPECT_EQ(hash(7, uint64_t{3}), hash(7, uint64_t{3}));
}

template <class Fill>
void expect_independent_of_chunks(Fill fill) {
  std::vector<float> whole(1000);
  fill(whole.data(), 0, 1000);
  for (const int64_t cut : {0, 1, 2, 3, 4, 5, 7, 500, 999, 1000}) {
    std::vector<float> parts(1000);
    fill(parts.data(), 0, cut);
    fill(parts.data() + cut, cut, 1000 - cut);
    EXPECT_EQ(parts, whole) << cut;
  }
  for (int64_t i = 0; i < 20; ++i) {
    float one = 0;
    fill(&one, i, 1);
    EXPECT_EQ(one, whole[static_cast<size_t>(i)]);
  }
}

TEST(Fill, elements_do_not_depend_on_chunks) {
  expect_independent_of_chunks([](float* out, int64_t first, int64_t count) {
    fill_normal(out, first, count, 1234, "h.0.attn.weight", 0.5, 0.02);
  });
  expect_independent_of_chunks(
      [](float* out, int64_t first, int64_t count) { fill_uniform(out, first, count, 1234, "w", -2, 3); });
}

TEST(Fill, normal_has_its_moments_and_tails) {
  constexpr size_t kCount = 1'000'000;
  std::vector<float> x(kCount);
  fill_normal(x.data(), 0, kCount, 1, "w");
  double mean = 0;
  double second = 0;
  double fourth = 0;
  double neighbours = 0;
  size_t beyond_two = 0;
  size_t beyond_four = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double v = x[i];
    mean += v / kCount;
    second += v * v / kCount;
    fourth += v * v * v * v / kCount;
    if (i > 0) neighbours += v * x[i - 1] / kCount;
    beyond_two += std::abs(v) > 2;
    beyond_four += std::abs(v) > 4;
  }
  // five standard errors each
  EXPECT_NEAR(mean, 0, 0.005);
  EXPECT_NEAR(second, 1, 0.0071);
  EXPECT_NEAR(fourth, 3, 0.049);
  EXPECT_NEAR(neighbours, 0, 0.005);
  EXPECT_NEAR(static_cast<double>(beyond_two), 45'500, 1'050);
  EXPECT_NEAR(static_cast<double>(beyond_four), 63.3, 40);
}

// The written-out logarithm, sine and cosine against those of the C library, on the same random bits.
TEST(Fill, normal_equals_box_and_muller) {
  std::vector<float> x(40'000);
  fill_normal(x.data(), 0, 40'000, 9, "w", 3, 2);
  const uint64_t key = hash(9, std::string_view("w"));
  for (uint32_t block = 0; block < 10'000; ++block) {
    const Words random = philox({static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}, {block, 0, 0, 0});
    for (size_t pair = 0; pair < 4; pair += 2) {
      const double radius = 2 * std::sqrt(-2 * std::log((random[pair] + 1.0) / 4294967296.0));
      const double angle = 2 * 3.14159265358979324 * random[pair + 1] / 4294967296.0;
      ASSERT_NEAR(x[block * 4 + pair], 3 + radius * std::cos(angle), 1e-6);
      ASSERT_NEAR(x[block * 4 + pair + 1], 3 + radius * std::sin(angle), 1e-6);
    }
  }
}

TEST(Fill, uniform_stays_inside) {
  std::vector<float> x(100'000);
  fill_uniform(x.data(), 0, 100'000, 2, "w", 1.0, 1.0 + 0x1p-23);
  EXPECT_EQ(*std::max_element(x.begin(), x.end()), 1.0F) << "the upper bound is no value";
  fill_uniform(x.data(), 0, 100'000, 2, "w", -2, 3);
  EXPECT_GE(*std::min_element(x.begin(), x.end()), -2.0F);
  EXPECT_LT(*std::max_element(x.begin(), x.end()), 3.0F);
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0) / 1e5, 0.5, 0.023);
}

TEST(Fill, streams_differ_by_seed_and_name_and_reach_far) {
  const auto first = [](uint64_t seed, const char* name, int64_t index) {
    float value = 0;
    fill_normal(&value, index, 1, seed, name);
    return value;
  };
  EXPECT_NE(first(1, "a", 0), first(2, "a", 0));
  EXPECT_NE(first(1, "a", 0), first(1, "b", 0));
  EXPECT_NE(first(1, "a", 0), first(1, "a", int64_t{1} << 34)) << "the index has more than 32 bits";
  EXPECT_TRUE(std::isfinite(first(1, "a", INT64_MAX - 1)));
  EXPECT_THROW(first(1, "a", -1), InternalError);
}

TEST(Uniform, lies_in_the_unit_interval) {
  double sum = 0;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const double u = uniform(5, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 1e5, 0.5, 0.005);
  EXPECT_EQ(uniform(5, 77), uniform(5, 77));
}

}  // namespace
}  // namespace trireme::base
