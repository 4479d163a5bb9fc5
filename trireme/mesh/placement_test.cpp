#include "trireme/mesh/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::mesh {
namespace {

using Shape = std::vector<int64_t>;

std::vector<int64_t> sizes(int64_t extent, int parts) {
  std::vector<int64_t> result;
  for (int i = 0; i < parts; ++i) result.push_back(slice_of(extent, parts, i).size);
  return result;
}

TEST(PlacementCases, B043_uneven_split_loses_nothing) {
  EXPECT_EQ(sizes(30, 4), (Shape{8, 8, 7, 7}));
  EXPECT_EQ(sizes(10, 3), (Shape{4, 3, 3}));
  EXPECT_EQ(sizes(7, 2), (Shape{4, 3}));
  EXPECT_EQ(sizes(62, 4), (Shape{16, 16, 15, 15}));
}

TEST(Placement, slices_are_contiguous_complete_and_even_within_one) {
  for (int64_t extent = 0; extent <= 67; ++extent) {
    for (int parts = 1; parts <= 19; ++parts) {
      int64_t end = 0;
      for (int i = 0; i < parts; ++i) {
        const Slice slice = slice_of(extent, parts, i);
        ASSERT_EQ(slice.begin, end);
        end += slice.size;
      }
      ASSERT_EQ(end, extent);
      const auto all = sizes(extent, parts);
      ASSERT_LE(all.front() - all.back(), 1);
      ASSERT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
    }
  }
}

TEST(Placement, large_extents_do_not_wrap) {
  const int64_t extent = (int64_t{1} << 40) + 3;
  EXPECT_EQ(slice_of(extent, 1 << 20, 0).size, (1 << 20) + 1);
  const Slice last = slice_of(extent, 1 << 20, (1 << 20) - 1);
  EXPECT_EQ(last.begin + last.size, extent);
}

TEST(Placement, local_shapes_and_offsets) {
  const Shape global = {10, 6, 4};
  EXPECT_EQ(local_shape(global, Placement::replicate(), 4, 3), global);
  EXPECT_EQ(local_shape(global, Placement::partial(), 4, 3), global);
  EXPECT_EQ(local_offset(global, Placement::partial(), 4, 3), (Shape{0, 0, 0}));
  EXPECT_EQ(local_shape(global, Placement::shard(0), 4, 0), (Shape{3, 6, 4}));
  EXPECT_EQ(local_shape(global, Placement::shard(0), 4, 3), (Shape{2, 6, 4}));
  EXPECT_EQ(local_offset(global, Placement::shard(0), 4, 3), (Shape{8, 0, 0}));
  EXPECT_EQ(local_shape(global, Placement::shard(1), 4, 1), (Shape{10, 2, 4}));
  EXPECT_EQ(local_shape(global, Placement::shard(2), 8, 7), (Shape{10, 6, 0}));
  EXPECT_EQ(local_offset(global, Placement::shard(2), 8, 7), (Shape{0, 0, 4}));
}

TEST(Placement, dimension_out_of_range_is_refused) {
  const Shape global = {4, 4};
  EXPECT_THROW(local_shape(global, Placement::shard(2), 2, 0), base::ConfigError);
  EXPECT_THROW(local_offset(global, Placement::shard(-1), 2, 0), base::ConfigError);
  EXPECT_THROW(local_shape(Shape{}, Placement::shard(0), 2, 0), base::ConfigError);
}

TEST(Placement, names_itself) {
  EXPECT_EQ(to_string(Placement::replicate()), "Replicate");
  EXPECT_EQ(to_string(Placement::shard(1)), "Shard(1)");
  EXPECT_EQ(to_string(Placement::partial()), "Partial");
}

}  // namespace
}  // namespace trireme::mesh
