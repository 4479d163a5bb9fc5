#include "trireme/shm/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/shm/reduce_oracle.h"

namespace trireme::shm {
namespace {

using base::DType;

template <class T>
std::vector<T> reduced(const std::vector<std::vector<T>>& inputs, DType dtype, ReduceOp op) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<T> out(inputs[0].size());
  reduce_elements(sources, reinterpret_cast<std::byte*>(out.data()), out.size(), dtype, op);
  return out;
}

TEST(Reduce, F16AndBF16RoundToNearestEvenLikeTheOracle) {
  // all pairs of a value with a small one: each rounding case occurs
  for (DType dtype : {DType::F16, DType::BF16}) {
    std::vector<uint16_t> all(65536), other(65536);
    std::mt19937 random(1);
    for (uint32_t i = 0; i < 65536; ++i) {
      all[i] = static_cast<uint16_t>(i);
      other[i] = static_cast<uint16_t>(random());
    }
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Average, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max}) {
      const auto out = reduced<uint16_t>({all, other}, dtype, op);
      for (uint32_t i = 0; i < 65536; ++i) {
        const float a = oracle::widened(all[i], dtype), b = oracle::widened(other[i], dtype);
        const float exact = oracle::combined(a, b, op, 2);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(oracle::widened(out[i], dtype))) << i;
        } else {
          ASSERT_EQ(out[i], oracle::narrowed(exact, dtype)) << name_of(op) << " " << a << " " << b;
        }
      }
    }
  }
}

TEST(Reduce, TheInstructionSetsGiveEqualBits) {
  if (reduce_avx2() == nullptr || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) GTEST_SKIP();
  std::mt19937_64 random(2);
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8}) {
    const size_t count = 3001;
    std::vector<std::vector<uint64_t>> inputs(3, std::vector<uint64_t>(count));
    for (auto& input : inputs) {
      for (auto& word : input)
        word = dtype == DType::U8 ? random() & 0x0303030303030303 : random() & ~0x4000'4000'4000'4000;
    }
    std::vector<const std::byte*> sources;
    for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Average}) {
      std::vector<uint64_t> a(count), b(count);
      reduce_baseline(sources.data(), 3, reinterpret_cast<std::byte*>(a.data()), count, dtype, op);
      reduce_avx2()(sources.data(), 3, reinterpret_cast<std::byte*>(b.data()), count, dtype, op);
      EXPECT_EQ(a, b) << base::name_of(dtype) << " " << name_of(op);
    }
  }
}

TEST(Reduce, SixteenBitsAreRoundedOnce) {
  // 2048 + 1 + 1 in fp16: rounded after each addition it would stay 2048
  const uint16_t big = oracle::narrowed(2048, DType::F16), one = oracle::narrowed(1, DType::F16);
  EXPECT_EQ(reduced<uint16_t>({{big}, {one}, {one}}, DType::F16, ReduceOp::Sum)[0], oracle::narrowed(2050, DType::F16));
  // four ranks with 300: the sum of squares' order of magnitude survives the average
  const uint16_t most = oracle::narrowed(60000, DType::F16);
  EXPECT_EQ(reduced<uint16_t>({{most}, {most}, {most}, {most}}, DType::F16, ReduceOp::Average)[0], most);
}

TEST(Reduce, SumsAreTakenInRankOrder) {
  const std::vector<std::vector<float>> inputs{{1e8f}, {1.0f}, {-1e8f}, {0.5f}};
  EXPECT_EQ(reduced<float>(inputs, DType::F32, ReduceOp::Sum)[0], ((1e8f + 1.0f) + -1e8f) + 0.5f);
  EXPECT_EQ(reduced<float>({{1.0f}, {1.0f}, {2.0f}}, DType::F32, ReduceOp::Average)[0], 4.0f / 3.0f);
}

TEST(Reduce, NanWinsOnEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (ReduceOp op : {ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum, ReduceOp::Average, ReduceOp::Product}) {
    const auto out = reduced<float>({{nan, 1, 1, nan}, {1, nan, 2, nan}, {1, 1, nan, 3}}, DType::F32, op);
    for (float value : out) EXPECT_TRUE(std::isnan(value)) << name_of(op);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(reduced<double>({{infinity}, {-infinity}}, DType::F64, ReduceOp::Min)[0], -infinity);
}

TEST(Reduce, TheDestinationMayBeAnySource) {
  for (size_t target = 0; target < 4; ++target) {
    std::vector<std::vector<float>> inputs(4, std::vector<float>(2500));
    for (size_t rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < 2500; ++i) inputs[rank][i] = static_cast<float>(rank * 10000 + i);
    }
    std::vector<const std::byte*> sources;
    for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
    reduce_elements(sources, reinterpret_cast<std::byte*>(inputs[target].data()), 2500, DType::F32, ReduceOp::Sum);
    for (size_t i = 0; i < 2500; ++i) ASSERT_EQ(inputs[target][i], static_cast<float>(60000 + 4 * i));
  }
}

TEST(ReduceCases, B093_integers_and_bool) {
  EXPECT_THROW(check_reducible(DType::I8, ReduceOp::Sum), base::CommError);       // 120 + 100
  EXPECT_THROW(check_reducible(DType::I64, ReduceOp::Average), base::CommError);  // of 1 and 2
  EXPECT_EQ(reduced<int64_t>({{1}, {2}}, DType::I64, ReduceOp::Sum)[0], 3);
  EXPECT_EQ(reduced<int32_t>({{120}, {100}}, DType::I32, ReduceOp::Sum)[0], 220);
  EXPECT_EQ(reduced<uint8_t>({{0, 1}, {1, 1}}, DType::Bool, ReduceOp::Max), (std::vector<uint8_t>{1, 1}));
  EXPECT_THROW(check_reducible(DType::Bool, ReduceOp::Sum), base::CommError);
  EXPECT_EQ(reduced<uint8_t>({{120}, {100}}, DType::U8, ReduceOp::Sum)[0], 220);
  EXPECT_THROW(reduced<uint8_t>({{156}, {100}}, DType::U8, ReduceOp::Sum), base::CommError);
  EXPECT_THROW(reduced<uint8_t>({{16}, {16}}, DType::U8, ReduceOp::Product), base::CommError);
  EXPECT_EQ(reduced<uint8_t>({{16}, {16}, {0}}, DType::U8, ReduceOp::Product)[0], 0);
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(reduced<int64_t>({{most}, {1}}, DType::I64, ReduceOp::Sum)[0], std::numeric_limits<int64_t>::min());
  try {
    check_reducible(DType::I64, ReduceOp::Average);
  } catch (const base::CommError& error) {
    EXPECT_STREQ(error.what(),
                 "no average of I64 elements; it would not be an integer: sum and divide, or convert to a float first");
  }
}

}  // namespace
}  // namespace trireme::shm
