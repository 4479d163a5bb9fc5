#include "trireme/train/evaluate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"

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
    data::check_shapes(inputs, static_cast<int64_t>(samples.size()));
    data::check_finite(inputs, samples);
    const auto loss = job.loss(model.forward(inputs.inputs), inputs);
    const auto value = loss.sum.item<double>();
    if (!std::isfinite(value))
      throw base::NonFiniteError(base::text_of("the loss of samples ", begin, " to ", begin + inputs.samples - 1,
                                               " in an evaluation is ", value, "; check them, or the weights"));
    evaluation.loss_sum += value;
    evaluation.items += loss.count;
  }
  return evaluation;
}

}  // namespace trireme::train
