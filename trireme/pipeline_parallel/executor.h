#pragma once

#include <functional>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/data/dataset.h"
#include "trireme/layers/job.h"
#include "trireme/layers/model.h"
#include "trireme/pipeline_parallel/schedule.h"

namespace trireme::pipeline_parallel {

/// What one run of a schedule gave on this rank; the losses are the last stage's, zero elsewhere.
struct PipelineResult {
  double loss_sum = 0;
  int64_t count = 0;
};

/// Runs any schedule on the layers of this rank's stage. Outputs and their gradients travel to the neighbours as a
/// tuple, each tensor behind a small header of its shape and dtype.
class Executor {
 public:
  /// `stage` holds the layers of this rank; `group` has one rank a stage, in stage order.
  Executor(layers::Model& stage, comm::Group group,
           std::function<layers::LossSum(const layers::Tensors&, const data::Batch&)> loss);

  /// Backward runs on sum * backward_scale. `batches` [micro-batch]: the first stage reads the inputs, the last one the
  /// targets. Gradients accumulate; the caller closes the data-parallel pass.
  PipelineResult run(const Schedule& schedule, const std::vector<data::Batch>& batches, double backward_scale);

 private:
  struct InFlight {
    layers::Tensors inputs, outputs;
  };
  void forward(int micro_batch, const data::Batch& batch, double backward_scale, PipelineResult& result);
  void backward(int micro_batch);
  void send(const layers::Tensors& tensors, int to);
  layers::Tensors receive(int from);

  layers::Model& stage_;
  comm::Group group_;
  std::function<layers::LossSum(const layers::Tensors&, const data::Batch&)> loss_;
  std::vector<InFlight> in_flight_;
  std::vector<comm::Work> sending_;
};

}  // namespace trireme::pipeline_parallel
