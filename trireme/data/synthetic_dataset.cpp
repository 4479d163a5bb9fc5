#include "trireme/data/synthetic_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/random.h"

namespace trireme::data {

SyntheticDataset::SyntheticDataset(const SyntheticOptions& options) : options_(options) {
  if (std::min({options.samples, options.inputs, options.outputs, options.hidden}) < 1) {
    throw base::ConfigError(base::text_of("synthetic data needs at least 1 of each: samples ", options.samples,
                                          ", inputs ", options.inputs, ", outputs ", options.outputs, ", hidden ",
                                          options.hidden));
  }
  int64_t elements = 0;
  if (__builtin_mul_overflow(options.first + options.samples, options.inputs, &elements)) {
    throw base::ConfigError(base::text_of("there are no ", options.first + options.samples, " samples of ",
                                          options.inputs, " numbers each: more than 64 bits can count; use fewer"));
  }
  first_.resize(options.hidden * options.inputs);
  second_.resize(options.outputs * options.hidden);
  base::fill_normal(first_.data(), 0, static_cast<int64_t>(first_.size()), options.seed, "synthetic.teacher.first", 0,
                    1 / std::sqrt(static_cast<double>(options.inputs)));
  base::fill_normal(second_.data(), 0, static_cast<int64_t>(second_.size()), options.seed, "synthetic.teacher.second",
                    0, 1 / std::sqrt(static_cast<double>(options.hidden)));
}

void SyntheticDataset::teach(const float* features, float* outputs) const {
  std::fill(outputs, outputs + options_.outputs, 0.0f);
  for (int64_t unit = 0; unit < options_.hidden; ++unit) {
    const float* weights = first_.data() + unit * options_.inputs;
    float sum = 0;
    for (int64_t i = 0; i < options_.inputs; ++i) sum += weights[i] * features[i];
    const float active = std::max(sum, 0.0f);
    for (int64_t o = 0; o < options_.outputs; ++o) outputs[o] += second_[o * options_.hidden + unit] * active;
  }
}

Batch SyntheticDataset::batch(std::span<const int64_t> samples) const {
  const auto count = static_cast<int64_t>(samples.size());
  const bool classes = options_.task == SyntheticTask::Classification;
  at::Tensor inputs = at::empty({count, options_.inputs}, at::kFloat);
  at::Tensor outputs = at::empty({count, options_.outputs}, at::kFloat);
  for (int64_t row = 0; row < count; ++row) {
    TRIREME_CHECK(samples[row] >= 0 && samples[row] < size(), "sample ", samples[row], " of ", size());
    float* features = inputs.mutable_data_ptr<float>() + row * options_.inputs;
    const int64_t index = options_.first + samples[row];
    base::fill_normal(features, index * options_.inputs, options_.inputs, options_.seed, "synthetic.inputs", 0, 1);
    teach(features, outputs.mutable_data_ptr<float>() + row * options_.outputs);
  }
  if (!classes) return {{inputs}, {outputs}, count};

  at::Tensor labels = at::empty({count}, at::kLong);
  for (int64_t row = 0; row < count; ++row) {
    const float* first = outputs.const_data_ptr<float>() + row * options_.outputs;
    labels.mutable_data_ptr<int64_t>()[row] = std::max_element(first, first + options_.outputs) - first;
  }
  return {{inputs}, {labels}, count};
}

}  // namespace trireme::data
