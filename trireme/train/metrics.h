#pragma once

#include <cstdint>
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
base::Json evaluation_line(int64_t step, const Trainer::Evaluation& evaluation);

/// Collects what summary.json says of the steps of one run.
class Summary {
 public:
  void add(const StepResult& result, double tokens_per_second, const RankFigures& figures);
  void add(int64_t step, const Trainer::Evaluation& evaluation);

  /// `tokens_per_second` is the median over steps from the fifth of this process on (all, if there are fewer).
  base::Json json() const;
  const std::vector<LossPoint>& training() const { return training_; }
  const std::vector<LossPoint>& validation() const { return validation_; }

 private:
  std::vector<LossPoint> training_, validation_;
  std::vector<double> rates_;
  double exposed_seconds_ = 0, total_seconds_ = 0;
  std::vector<int64_t> peak_rss_bytes_;
};

}  // namespace trireme::train
