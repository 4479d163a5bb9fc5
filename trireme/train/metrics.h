#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/comm/group.h"
#include "trireme/train/loss_plot.h"
#include "trireme/train/trainer.h"

namespace trireme::train {

/// What each rank tells of a step, by rank.
struct RankFigures {
  std::vector<StepSeconds> seconds;
  std::vector<double> busy;  // the part of the step that the rank did not wait for data or peers, 0 to 1
  std::vector<int64_t> peak_rss_bytes;
};

/// Every rank's figures of a step, on every rank: one small all-gather.
RankFigures gather_figures(const comm::Group& group, const StepSeconds& seconds);

/// One line of metrics.jsonl.
base::Json step_line(const StepResult& result, double tokens_per_second, const RankFigures& figures);
base::Json evaluation_line(int64_t step, const Evaluation& evaluation);

/// The losses of a run so far, those before a resume included.
struct LossHistory {
  std::vector<LossPoint> training, validation;
};
LossHistory read_history(const std::string& run_folder);

/// Collects what summary.json says of the steps of this process.
class Summary {
 public:
  void add(int64_t step, double tokens_per_second, const RankFigures& figures);

  /// `tokens_per_second` is the median over steps from the fifth of this process on (all, if there are fewer);
  /// stragglers the ranks for which others waited: [{"rank", "steps", "seconds" in all, "worst_step",
  /// "worst_seconds"}];
  /// speed_up the number of ranks that were busy on average: how much faster this is than one rank that never waits.
  base::Json json() const;

 private:
  std::vector<double> rates_;
  double exposed_seconds_ = 0, total_seconds_ = 0, busy_seconds_ = 0;
  size_t ranks_ = 1;
  std::vector<int64_t> peak_rss_bytes_;

  struct Straggler {
    int64_t steps = 0;
    double seconds = 0;
    int64_t worst_step = 0;
    double worst_seconds = 0;
  };
  void find_straggler(int64_t step, const RankFigures& figures);
  std::map<size_t, Straggler> stragglers_;  // by rank
};

}  // namespace trireme::train
