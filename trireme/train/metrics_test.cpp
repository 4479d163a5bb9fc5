#include "trireme/train/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::train {
namespace {

RankFigures of_backward(const std::vector<double>& seconds) {
  RankFigures figures;
  const double slowest = *std::max_element(seconds.begin(), seconds.end());
  for (double s : seconds) {
    StepSeconds rank;
    rank.backward = s;
    rank.exposed_communication = slowest - s;
    figures.seconds.push_back(rank);
  }
  figures.busy.assign(seconds.size(), 1);
  figures.peak_rss_bytes.assign(seconds.size(), 0);
  return figures;
}

TEST(Summary, names_ranks_for_which_others_waited) {
  Summary summary;
  summary.add(1, 100, of_backward({0.2, 0.25, 0.2}));
  summary.add(2, 100, of_backward({0.2, 5.2, 0.2}));
  summary.add(3, 100, of_backward({0.2, 0.7, 0.2}));
  summary.add(4, 100, of_backward({0.001, 0.05, 0.001}));  // 50 times as long, of nothing
  const base::Json stragglers = summary.json()["stragglers"];
  ASSERT_EQ(stragglers.size(), 1u) << stragglers;
  EXPECT_EQ(stragglers[0]["rank"], 1);
  EXPECT_EQ(stragglers[0]["steps"], 2);
  EXPECT_NEAR(stragglers[0]["seconds"].get<double>(), 5.5, 1e-9);
  EXPECT_EQ(stragglers[0]["worst_step"], 2);
  EXPECT_NEAR(stragglers[0]["worst_seconds"].get<double>(), 5, 1e-9);
}

TEST(Summary, one_rank_has_no_straggler) {
  Summary summary;
  summary.add(1, 100, of_backward({5}));
  EXPECT_TRUE(summary.json()["stragglers"].empty());
}

}  // namespace
}  // namespace trireme::train
