#include "trireme/base/permutation.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

std::vector<uint64_t> order(uint64_t seed, uint64_t n) {
  const Permutation permutation(seed, n);
  std::vector<uint64_t> out(n);
  for (uint64_t i = 0; i < n; ++i) out[i] = permutation(i);
  return out;
}

TEST(Permutation, is_one_to_one) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 16, 17, 22, 64, 65, 1000, 4096, 4097, 100'003}) {
    std::vector<bool> seen(n, false);
    for (const uint64_t value : order(42, n)) {
      ASSERT_LT(value, n);
      ASSERT_FALSE(seen[value]) << n;
      seen[value] = true;
    }
  }
}

// B097: 22 samples, an order for each epoch, the same on a rerun.
TEST(PermutationCases, B097_orders_differ_by_seed_and_repeat) {
  EXPECT_EQ(order(1, 22), order(1, 22));
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t seed = 0; seed < 100; ++seed) orders.insert(order(seed, 22));
  EXPECT_EQ(orders.size(), 100U);
}

TEST(Permutation, every_place_gets_every_value_alike) {
  // 10 values, 20000 seeds: 2000 expected in each of 100 cells, standard deviation 42
  std::vector<int> counts(100, 0);
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    const Permutation permutation(seed, 10);
    for (uint64_t i = 0; i < 10; ++i) ++counts[i * 10 + permutation(i)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 250);
}

TEST(Permutation, neighbours_are_scattered) {
  const std::vector<uint64_t> values = order(3, 10'000);
  int ascending = 0;
  int adjacent = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    ascending += values[i] > values[i - 1];
    adjacent += values[i] == values[i - 1] + 1;
  }
  EXPECT_NEAR(ascending, 5000, 150);  // standard deviation 29
  EXPECT_LT(adjacent, 10);            // 1 expected
}

TEST(Permutation, large_domains) {
  for (const uint64_t n : {uint64_t{1} << 33, (uint64_t{1} << 62) + 1, UINT64_MAX}) {
    const Permutation permutation(7, n);
    std::set<uint64_t> values;
    for (uint64_t i = 0; i < 1000; ++i) {
      values.insert(permutation(i));
      values.insert(permutation(n - 1 - i));
      EXPECT_LT(permutation(i), n);
    }
    EXPECT_EQ(values.size(), 2000U);
  }
}

TEST(Permutation, an_index_outside_is_refused) {
  EXPECT_THROW(Permutation(1, 5)(5), InternalError);
  EXPECT_THROW(Permutation(1, 0)(0), InternalError);
}

}  // namespace
}  // namespace trireme::base
