#include "trireme/mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "trireme/base/error.h"

namespace trireme::mesh {
namespace {

using Groups = std::vector<std::vector<int>>;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

// every legal combination of degrees for worlds up to 32 and pp, tp, cp, ep, etp up to 8
void for_each_mesh(const std::function<void(const Mesh&)>& visit) {
  for (int world = 1; world <= 32; ++world) {
    for (int tp = 1; tp <= 8; ++tp) {
      for (int cp = 1; cp <= 8; ++cp) {
        for (int pp = 1; pp <= 8; ++pp) {
          if (world % (tp * cp * pp) != 0) continue;
          for (int ep = 1; ep <= 8; ++ep) {
            for (int etp = 1; etp <= 8; ++etp) {
              if (world % (etp * ep * pp) != 0) continue;
              visit(Mesh({tp, cp, world / (tp * cp * pp), pp, ep, etp}, world));
            }
          }
        }
      }
    }
  }
}

TEST(Mesh, tp_is_fastest_then_cp_dp_pp) {
  const Mesh mesh({.tp = 2, .cp = 2, .dp = 2, .pp = 2}, 16);
  EXPECT_EQ(mesh.coordinate(0), (Coordinate{0, 0, 0, 0}));
  EXPECT_EQ(mesh.coordinate(1), (Coordinate{1, 0, 0, 0}));
  EXPECT_EQ(mesh.coordinate(2), (Coordinate{0, 1, 0, 0}));
  EXPECT_EQ(mesh.coordinate(4), (Coordinate{0, 0, 1, 0}));
  EXPECT_EQ(mesh.coordinate(8), (Coordinate{0, 0, 0, 1}));
  EXPECT_EQ(mesh.rank_of(Coordinate{1, 0, 1, 1}), 13);
}

TEST(Mesh, groups_of_megatrons_example) {
  // Megatron-LM, parallel_state: 16 ranks, tp 2, pp 4
  const Mesh mesh({.tp = 2, .dp = 2, .pp = 4}, 16);
  EXPECT_EQ(mesh.groups("tp"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(mesh.groups("dp"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(mesh.groups("pp"), (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(mesh.groups("dp_cp"), mesh.groups("dp"));
}

TEST(Mesh, data_ranks_span_context_ranks) {
  const Mesh mesh({.tp = 2, .cp = 2, .dp = 2}, 8);
  EXPECT_EQ(mesh.groups("cp"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.groups("dp_cp"), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(mesh.group_of("dp_cp", 5), (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(mesh.index_in("dp_cp", 5), 2);
}

TEST(Mesh, expert_view) {
  const Mesh mesh({.tp = 2, .dp = 4, .ep = 4, .etp = 1}, 8);
  EXPECT_EQ(mesh.edp(), 2);
  EXPECT_EQ(mesh.groups("ep"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(mesh.groups("edp"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.expert_coordinate(6), (ExpertCoordinate{0, 2, 1, 0}));
  EXPECT_EQ(mesh.rank_of(ExpertCoordinate{0, 2, 1, 0}), 6);
}

TEST(Mesh, coordinates_and_ranks_are_inverse_over_all_shapes) {
  int shapes = 0;
  for_each_mesh([&](const Mesh& mesh) {
    ++shapes;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      ASSERT_EQ(mesh.rank_of(mesh.coordinate(rank)), rank) << mesh.describe();
      ASSERT_EQ(mesh.rank_of(mesh.expert_coordinate(rank)), rank) << mesh.describe();
      ASSERT_EQ(mesh.coordinate(rank).pp, mesh.expert_coordinate(rank).pp) << mesh.describe();
    }
  });
  EXPECT_GT(shapes, 1000);
}

TEST(Mesh, every_axis_partitions_the_world_over_all_shapes) {
  for_each_mesh([&](const Mesh& mesh) {
    for (std::string_view axis : axis_names) {
      std::vector<int> seen;
      int first = -1;
      for (const auto& group : mesh.groups(axis)) {
        ASSERT_EQ(static_cast<int>(group.size()), mesh.group_size(axis));
        ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
        ASSERT_GT(group.front(), first);
        first = group.front();
        for (size_t i = 0; i < group.size(); ++i) {
          seen.push_back(group[i]);
          ASSERT_EQ(mesh.group_of(axis, group[i]), group) << axis << "\n" << mesh.describe();
          ASSERT_EQ(mesh.index_in(axis, group[i]), static_cast<int>(i));
        }
      }
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(static_cast<int>(seen.size()), mesh.world_size());
      for (int rank = 0; rank < mesh.world_size(); ++rank) ASSERT_EQ(seen[static_cast<size_t>(rank)], rank);
    }
  });
}

// The members of a group differ in the coordinates that give the axis its name and in no other.
TEST(Mesh, groups_vary_only_their_own_axis_over_all_shapes) {
  for_each_mesh([&](const Mesh& mesh) {
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const Coordinate own = mesh.coordinate(rank);
      const ExpertCoordinate expert = mesh.expert_coordinate(rank);
      const auto tp = mesh.group_of("tp", rank);
      for (size_t i = 0; i < tp.size(); ++i) {
        ASSERT_EQ(mesh.coordinate(tp[i]), (Coordinate{static_cast<int>(i), own.cp, own.dp, own.pp}));
      }
      const auto cp = mesh.group_of("cp", rank);
      for (size_t i = 0; i < cp.size(); ++i) {
        ASSERT_EQ(mesh.coordinate(cp[i]), (Coordinate{own.tp, static_cast<int>(i), own.dp, own.pp}));
      }
      const auto dp = mesh.group_of("dp", rank);
      for (size_t i = 0; i < dp.size(); ++i) {
        ASSERT_EQ(mesh.coordinate(dp[i]), (Coordinate{own.tp, own.cp, static_cast<int>(i), own.pp}));
      }
      const auto pp = mesh.group_of("pp", rank);
      for (size_t i = 0; i < pp.size(); ++i) {
        ASSERT_EQ(mesh.coordinate(pp[i]), (Coordinate{own.tp, own.cp, own.dp, static_cast<int>(i)}));
        ASSERT_EQ(mesh.expert_coordinate(pp[i]),
                  (ExpertCoordinate{expert.etp, expert.ep, expert.edp, static_cast<int>(i)}));
      }
      for (int member : mesh.group_of("dp_cp", rank)) {
        ASSERT_EQ(mesh.coordinate(member).tp, own.tp);
        ASSERT_EQ(mesh.coordinate(member).pp, own.pp);
      }
      const auto ep = mesh.group_of("ep", rank);
      for (size_t i = 0; i < ep.size(); ++i) {
        ASSERT_EQ(mesh.expert_coordinate(ep[i]),
                  (ExpertCoordinate{expert.etp, static_cast<int>(i), expert.edp, expert.pp}));
      }
      const auto etp = mesh.group_of("etp", rank);
      for (size_t i = 0; i < etp.size(); ++i) {
        ASSERT_EQ(mesh.expert_coordinate(etp[i]),
                  (ExpertCoordinate{static_cast<int>(i), expert.ep, expert.edp, expert.pp}));
      }
      const auto edp = mesh.group_of("edp", rank);
      for (size_t i = 0; i < edp.size(); ++i) {
        ASSERT_EQ(mesh.expert_coordinate(edp[i]),
                  (ExpertCoordinate{expert.etp, expert.ep, static_cast<int>(i), expert.pp}));
      }
    }
  });
}

TEST(Mesh, dp_follows_from_the_world) {
  EXPECT_EQ(with_world_size({.tp = 2}, 8).dp, 4);
  EXPECT_EQ(with_world_size({.dp = 99}, 3).dp, 3);
  EXPECT_EQ(with_world_size({.tp = 2, .cp = 2, .pp = 2}, 16).dp, 2);
}

TEST(Mesh, errors_name_the_numbers) {
  EXPECT_EQ(error_of([] { with_world_size({.tp = 2, .pp = 2}, 6); }),
            "world size 6 is not divisible by tp*cp*pp = 4; the nearest world size is 4 or 8");
  EXPECT_EQ(error_of([] { with_world_size({.tp = 8}, 2); }),
            "world size 2 is not divisible by tp*cp*pp = 8; the nearest world size is 8");
  EXPECT_EQ(error_of([] { Mesh({.tp = 2, .dp = 2}, 8); }),
            "tp*cp*dp*pp = 2*1*2*1 = 4 is not the world size 8; dp would have to be 4");
  EXPECT_EQ(error_of([] { Mesh({.dp = 6, .ep = 4}, 6); }),
            "world size 6 is not divisible by etp*ep*pp = 4; the nearest world size is 4 or 8");
  EXPECT_EQ(error_of([] { Mesh({.tp = 0}, 1); }), "parallel size tp must be at least 1; it is 0");
  EXPECT_EQ(error_of([] { Mesh({}, 0); }), "world size must be at least 1; it is 0");
  EXPECT_NE(error_of([] { with_world_size({.tp = 2000000000, .cp = 2000000000, .pp = 2000000000}, 8); }),
            "no ConfigError");
}

TEST(Mesh, wrong_ranks_and_axes_are_our_own_errors) {
  const Mesh mesh({.dp = 2}, 2);
  EXPECT_THROW(mesh.coordinate(2), base::InternalError);
  EXPECT_THROW(mesh.coordinate(-1), base::InternalError);
  EXPECT_THROW(mesh.rank_of(Coordinate{.dp = 2}), base::InternalError);
  EXPECT_THROW(mesh.groups("ddp"), base::InternalError);
}

TEST(Mesh, describes_itself) {
  const std::string text = Mesh({.tp = 2, .dp = 2}, 4).describe();
  EXPECT_EQ(text,
            "world 4 = tp 2 x cp 1 x dp 2 x pp 1; experts: etp 1 x ep 1 x edp 4 x pp 1\n"
            "  rank    tp    cp    dp    pp |  etp    ep   edp\n"
            "     0     0     0     0     0 |    0     0     0\n"
            "     1     1     0     0     0 |    0     0     1\n"
            "     2     0     0     1     0 |    0     0     2\n"
            "     3     1     0     1     0 |    0     0     3\n"
            "tp: [0,1] [2,3]\n"
            "dp: [0,2] [1,3]\n"
            "dp_cp: [0,2] [1,3]\n"
            "edp: [0,1,2,3]\n");
  EXPECT_NE(Mesh({.dp = 100}, 100).describe().find("and 36 more ranks"), std::string::npos);
}

}  // namespace
}  // namespace trireme::mesh
