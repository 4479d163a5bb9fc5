#pragma once

#include "trireme/data/sampling.h"
#include "trireme/layers/job.h"
#include "trireme/layers/model.h"

namespace trireme::train {

/// Sums over some samples, so that parts of a dataset add up.
struct Evaluation {
  double loss_sum = 0;
  int64_t items = 0;
  double loss() const { return items > 0 ? loss_sum / static_cast<double>(items) : 0; }  // mean over all items
};

/// The model on samples [rows.begin, rows.end) of a dataset, `batch` of them at a time, in evaluation mode and without
/// gradients; the model is left in evaluation mode. Throws base::DataError for a batch of a wrong
/// shape or with values that are not finite, base::NonFiniteError for such a loss; both name the samples.
Evaluation evaluate(layers::Model& model, const layers::Job& job, const data::Dataset& dataset, data::Rows rows,
                    int64_t batch);

}  // namespace trireme::train
