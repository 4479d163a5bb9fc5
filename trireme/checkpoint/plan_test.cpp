#include "trireme/checkpoint/plan.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::checkpoint {
namespace {

LocalTensor offer(const std::string& name, std::vector<int64_t> shape, int64_t begin, int64_t end,
                  base::DType dtype = base::DType::F32) {
  return {name, std::move(shape), dtype, {}, begin, end, nullptr};
}

int64_t bytes_of(const Plan& plan, size_t rank) {
  int64_t bytes = 0;
  for (const PlannedPiece& piece : plan.ranks[rank])
    bytes += (piece.end - piece.begin) * static_cast<int64_t>(base::size_of(plan.tensors[piece.tensor].dtype));
  return bytes;
}

std::string error_of(const std::vector<std::vector<LocalTensor>>& offers) {
  try {
    plan_save(offers);
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Plan, ReplicasAreSplitEvenlyByBytes) {
  const std::vector<LocalTensor> everything{offer("a", {10, 10}, 0, 100), offer("b", {7}, 0, 7, base::DType::F64),
                                            offer("c", {1001}, 0, 1001, base::DType::BF16), offer("d", {0}, 0, 0)};
  const int64_t total = 400 + 56 + 2002;
  for (size_t ranks = 1; ranks <= 7; ++ranks) {
    const Plan plan = plan_save(std::vector<std::vector<LocalTensor>>(ranks, everything));
    EXPECT_EQ(plan.tensors.size(), 4u);
    int64_t sum = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      sum += bytes_of(plan, rank);
      EXPECT_NEAR(bytes_of(plan, rank), total / static_cast<int64_t>(ranks), 8) << rank << " of " << ranks;
    }
    EXPECT_EQ(sum, total);
  }
}

TEST(Plan, LongTensorsAreCutIntoPieces) {
  const int64_t elements = most_piece_bytes / 4 * 2 + 5;
  const Plan plan = plan_save({{offer("a", {elements}, 0, elements)}});
  ASSERT_EQ(plan.ranks[0].size(), 3u);
  EXPECT_EQ(plan.ranks[0][2].end - plan.ranks[0][2].begin, 5);
}

TEST(Plan, ShardsAreWrittenByTheirOwners) {
  const Plan plan = plan_save({{offer("a", {10}, 0, 4)}, {offer("a", {10}, 4, 10)}, {offer("a", {10}, 10, 10)}});
  ASSERT_EQ(plan.ranks[0].size(), 1u);
  ASSERT_EQ(plan.ranks[1].size(), 1u);
  EXPECT_TRUE(plan.ranks[2].empty());
  EXPECT_EQ(plan.ranks[1][0].begin, 4);
  EXPECT_EQ(plan.ranks[1][0].end, 10);
}

TEST(Plan, DisagreementsAreNamed) {
  EXPECT_EQ(error_of({{offer("a", {10}, 0, 10)}, {offer("a", {11}, 0, 11)}}),
            "rank 1's tensor 'a' is F32 [11], on rank 0 it is F32 [10]");
  EXPECT_EQ(error_of({{offer("a", {10}, 0, 10)}, {offer("a", {10}, 0, 10, base::DType::F16)}}),
            "rank 1's tensor 'a' is F16 [10], on rank 0 it is F32 [10]");
  EXPECT_EQ(error_of({{offer("a", {10}, 0, 4)}, {offer("a", {10}, 5, 10)}}),
            "the tensors to save: elements [4:5] of tensor 'a' are in no file");
  EXPECT_EQ(error_of({{offer("a", {10}, 0, 5)}, {offer("a", {10}, 4, 10)}}),
            "the tensors to save: elements [4:5] of tensor 'a' are stored 2 times, in rank 0, rank 1");
  EXPECT_EQ(error_of({{offer("a", {10}, 0, 10), offer("a", {10}, 0, 10)}}), "rank 0's tensor 'a' is offered twice");
  EXPECT_EQ(error_of({{offer("a", {10}, 0, 11)}}), "rank 0's tensor 'a' has the range [0, 11) of 10 elements");
}

TEST(Plan, OffersSurviveTheWire) {
  LocalTensor tensor = offer("a", {4, 6}, 1, 7, base::DType::BF16);
  tensor.boxes = {{{0, 0}, {4, 2}}, {{0, 4}, {4, 6}}};
  const auto back = offers_from_json(base::Json::parse(offers_to_json({tensor}).dump()));
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].name, "a");
  EXPECT_EQ(back[0].global_shape, tensor.global_shape);
  EXPECT_EQ(back[0].dtype, base::DType::BF16);
  EXPECT_EQ(back[0].boxes, tensor.boxes);
  EXPECT_EQ(back[0].begin, 1);
  EXPECT_EQ(back[0].end, 7);
}

}  // namespace
}  // namespace trireme::checkpoint
