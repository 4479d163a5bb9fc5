#include "trireme/checkpoint/boxes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace trireme::checkpoint {
namespace {

/// Global row-major indices of the elements [begin, end) of the concatenation, the slow and obvious way.
std::vector<int64_t> enumerated(const std::vector<int64_t>& shape, std::vector<Box> boxes, int64_t begin, int64_t end) {
  if (boxes.empty()) boxes.push_back(whole(shape));
  std::vector<int64_t> all;
  for (const Box& box : boxes) {
    if (volume(box) == 0) continue;
    std::vector<int64_t> index = box.begin;
    for (bool more = true; more;) {
      int64_t linear = 0;
      for (size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + index[d];
      all.push_back(linear);
      size_t d = shape.size();
      while (d > 0 && ++index[d - 1] == box.end[d - 1]) {
        index[d - 1] = box.begin[d - 1];
        --d;
      }
      more = d > 0;
    }
  }
  return {all.begin() + begin, all.begin() + end};
}

TEST(Boxes, RegionsHoldExactlyTheRange) {
  const std::vector<int64_t> shape{3, 4, 5};
  const std::vector<Box> boxes{{{0, 1, 0}, {3, 3, 5}}, {{1, 0, 2}, {2, 1, 4}}};
  const int64_t total = 30 + 2;
  for (int64_t begin = 0; begin <= total; ++begin)
    for (int64_t end = begin; end <= total; ++end) {
      const auto regions = regions_of(shape, boxes, begin, end);
      int64_t elements = 0;
      for (const Region& region : regions) elements += volume(region.part);
      ASSERT_EQ(elements, end - begin);
      EXPECT_LE(regions.size(), 5u + 5u);
    }
}

TEST(Boxes, CopyBetweenRandomLayoutsIsTheIntersection) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t dimensions = static_cast<size_t>(below(4));
    std::vector<int64_t> shape;
    for (size_t d = 0; d < dimensions; ++d) shape.push_back(1 + below(5));
    const auto random_box = [&] {
      Box box = whole(shape);
      for (size_t d = 0; d < dimensions; ++d) {
        box.begin[d] = below(shape[d] + 1);
        box.end[d] = box.begin[d] + below(shape[d] - box.begin[d] + 1);
      }
      return box;
    };
    const auto random_layout = [&](std::vector<Box>& boxes, int64_t& begin, int64_t& end) {
      boxes.clear();
      for (int64_t n = below(3); n > 0; --n) boxes.push_back(random_box());
      int64_t total = boxes.empty() ? volume(whole(shape)) : 0;
      for (const Box& box : boxes) total += volume(box);
      begin = below(total + 1);
      end = begin + below(total - begin + 1);
    };
    std::vector<Box> from, to;
    int64_t from_begin, from_end, to_begin, to_end;
    random_layout(from, from_begin, from_end);
    random_layout(to, to_begin, to_end);
    const auto source_indices = enumerated(shape, from, from_begin, from_end);
    const auto target_indices = enumerated(shape, to, to_begin, to_end);
    std::vector<int64_t> source = source_indices, target(target_indices.size(), -1);
    for (const Region& a : regions_of(shape, from, from_begin, from_end))
      for (const Region& b : regions_of(shape, to, to_begin, to_end))
        copy_common(a, reinterpret_cast<const std::byte*>(source.data()), b,
                    reinterpret_cast<std::byte*>(target.data()), sizeof(int64_t));
    for (size_t i = 0; i < target.size(); ++i) {
      const bool held = std::count(source_indices.begin(), source_indices.end(), target_indices[i]) > 0;
      ASSERT_EQ(target[i], held ? target_indices[i] : -1) << "trial " << trial;
    }
  }
}

TEST(Boxes, CoverageFindsGapsAndOverlaps) {
  const std::vector<int64_t> shape{4, 6};
  const std::vector<Box> tiles{{{0, 0}, {4, 2}}, {{0, 2}, {1, 6}}, {{1, 2}, {4, 4}}, {{1, 4}, {4, 6}}};
  EXPECT_FALSE(coverage_fault(shape, tiles));

  const std::vector<Box> with_gap{tiles[0], tiles[1], tiles[3]};
  const auto gap = coverage_fault(shape, with_gap);
  ASSERT_TRUE(gap);
  EXPECT_TRUE(gap->covered_by.empty());
  EXPECT_EQ(gap->where, tiles[2]);

  std::vector<Box> overlapping = tiles;
  overlapping.push_back({{3, 5}, {4, 6}});
  const auto overlap = coverage_fault(shape, overlapping);
  ASSERT_TRUE(overlap);
  EXPECT_EQ(overlap->covered_by, (std::vector<size_t>{3, 4}));
  EXPECT_EQ(text_of(overlap->where), "[3:4, 5:6]");

  EXPECT_FALSE(coverage_fault({}, std::vector<Box>{Box{}}));
  EXPECT_TRUE(coverage_fault({}, {}));
  EXPECT_FALSE(coverage_fault({4, 0}, {}));
}

TEST(Boxes, FaultsAreNamed) {
  EXPECT_FALSE(boxes_fault({2, 3}, {}, 0, 6));
  EXPECT_EQ(boxes_fault({2, 3}, {}, 0, 7), "has the range [0, 7) of 6 elements");
  EXPECT_EQ(boxes_fault({2, 3}, {}, -1, 2), "has the range [-1, 2) of 6 elements");
  EXPECT_EQ(boxes_fault({2, 3}, {{{0, 0}, {2, 4}}}, 0, 1), "has the box [0:2, 0:4] outside the shape [2, 3]");
  EXPECT_EQ(boxes_fault({2, 3}, {{{0}, {2}}}, 0, 1), "has a box of 1 and 1 numbers in a tensor of 2 dimensions");
  EXPECT_EQ(boxes_fault({2, -3}, {}, 0, 0), "has the negative shape [2, -3]");
  EXPECT_TRUE(boxes_fault({int64_t{1} << 33, int64_t{1} << 33}, {}, 0, 0));
  EXPECT_TRUE(boxes_fault({int64_t{1} << 33, int64_t{1} << 33, 0}, {}, 0, 0));
  EXPECT_TRUE(boxes_fault(std::vector<int64_t>(65, 1), {}, 0, 0));
}

}  // namespace
}  // namespace trireme::checkpoint
