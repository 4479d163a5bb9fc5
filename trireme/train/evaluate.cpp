#include "trireme/train/evaluate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace trireme::train {

Evaluation evaluate(layers::Model& model, const layers::Job& job, const data::Dataset& dataset, data::Rows rows,
                    int64_t batch) {
  at::NoGradGuard no_grad;
  model.train(false);
  Evaluation evaluation;
  for (auto begin = rows.begin; begin < rows.end; begin += batch) {
    std::vector<int64_t> samples(std::min(batch, rows.end - begin));
    std::iota(samples.begin(), samples.end(), begin);
    const auto inputs = dataset.batch(samples);
    const auto loss = job.loss(model.forward(inputs.inputs), inputs);
    evaluation.loss_sum += loss.sum.item<double>();
    evaluation.items += loss.count;
  }
  return evaluation;
}

}  // namespace trireme::train
