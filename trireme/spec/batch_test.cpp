#include "trireme/spec/batch.h"

#include <gtest/gtest.h>

namespace trireme::spec {
namespace {

BatchSizes good(const BatchSizes& given, int64_t data_ranks) {
  base::Violations violations;
  const BatchSizes sizes = resolve_batch(given, data_ranks, violations);
  EXPECT_TRUE(violations.empty()) << violations.text();
  EXPECT_EQ(sizes.train, sizes.micro * sizes.accumulation * data_ranks);
  return sizes;
}

std::string bad(const BatchSizes& given, int64_t data_ranks) {
  base::Violations violations;
  EXPECT_EQ(resolve_batch(given, data_ranks, violations), BatchSizes{});
  EXPECT_EQ(violations.size(), 1u);
  return violations.text();
}

// micro * accumulation * dp
TEST(ConfigCases, B122_batch_triple) {
  const std::string contradiction = bad({8, 2, 1}, 1);
  EXPECT_NE(contradiction.find("8 != 2 * 1 * 1"), std::string::npos) << contradiction;
  EXPECT_NE(
      contradiction.find("train_batch_size 2, or train_micro_batch_size_per_gpu 8, or gradient_accumulation_steps 4"),
      std::string::npos)
      << contradiction;
  EXPECT_EQ(good({32, 0, 0}, 4), (BatchSizes{32, 8, 1}));
  EXPECT_EQ(good({0, 4, 0}, 4), (BatchSizes{16, 4, 1}));
  EXPECT_EQ(good({0, 4, 3}, 4), (BatchSizes{48, 4, 3}));
  EXPECT_EQ(good({32, 4, 0}, 4), (BatchSizes{32, 4, 2}));
  EXPECT_EQ(good({32, 0, 2}, 4), (BatchSizes{32, 4, 2}));
  const std::string indivisible = bad({30, 0, 0}, 4);
  EXPECT_NE(indivisible.find("30 is not a multiple of"), std::string::npos) << indivisible;
  EXPECT_NE(indivisible.find("28 or 32"), std::string::npos) << indivisible;
  // TP = 2 on 8 ranks leaves 4 data-parallel ranks
  EXPECT_EQ(good({64, 4, 4}, 8 / 2), (BatchSizes{64, 4, 4}));
}

TEST(Batch, nearest_stays_below_the_largest) {
  const std::string text = bad({2147483647, 0, 0}, 2);
  EXPECT_NE(text.find("nearest legal train_batch_size: 2147483646"), std::string::npos) << text;
  EXPECT_EQ(text.find("2147483648"), std::string::npos) << text;
}

TEST(Batch, says_what_is_missing) {
  EXPECT_NE(bad({0, 0, 0}, 2).find("either train_batch_size or train_micro_batch_size_per_gpu"), std::string::npos);
  EXPECT_NE(bad({0, 0, 4}, 2).find("gradient_accumulation_steps 4, data-parallel ranks 2"), std::string::npos);
}

TEST(Batch, nearest_of_a_batch_below_the_smallest) {
  EXPECT_NE(bad({3, 4, 0}, 2).find("nearest legal train_batch_size: 8"), std::string::npos);
}

TEST(Batch, products_beyond_32_bits) {
  EXPECT_NE(bad({0, 2'000'000'000, 2'000'000'000}, 65536).find("exceed"), std::string::npos);
  EXPECT_NE(bad({7, 2'000'000'000, 2'000'000'000}, 65536).find("exceed"), std::string::npos);
}

}  // namespace
}  // namespace trireme::spec
