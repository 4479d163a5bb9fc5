// The task of 04 and 05: tell two spirals apart. A job is layers, data and a loss.
#pragma once

#include <torch/torch.h>
#include <trireme/trireme.h>

#include <cmath>

class Spirals : public trireme::Dataset {
 public:
  explicit Spirals(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  trireme::Batch batch(std::span<const int64_t> samples) const override {
    const auto n = static_cast<int64_t>(samples.size());
    auto x = at::empty({n, 2});
    auto label = at::empty({n}, at::kLong);
    for (int64_t i = 0; i < n; ++i) {
      const auto arm = samples[i] % 2;
      const float t = 0.5f + 4.0f * static_cast<float>(samples[i]) / static_cast<float>(size_),
                  turn = t * 2 + 3.14159f * static_cast<float>(arm);
      x[i][0] = t * std::cos(turn) / 4;
      x[i][1] = t * std::sin(turn) / 4;
      label[i] = arm;
    }
    return {{x}, {label}, n};
  }

 private:
  int64_t size_;
};

inline trireme::Job spiral_job(int64_t width) {
  trireme::Job job;
  job.layers.add("in", [width] { return torch::nn::Linear(2, width); });
  job.layers.add("bend", [] { return torch::nn::Tanh(); });
  job.layers.add("middle", [width] { return torch::nn::Linear(width, width); });
  job.layers.add("bend2", [] { return torch::nn::Tanh(); });
  job.layers.add("out", [width] { return torch::nn::Linear(width, 2); });
  job.training = std::make_shared<Spirals>(512);
  job.validation = std::make_shared<Spirals>(101);
  // the SUM over samples and their COUNT: any split over ranks and micro-batches adds up
  job.loss = [](const trireme::Tensors& outputs, const trireme::Batch& batch) {
    return trireme::LossSum{
        torch::nn::functional::cross_entropy(outputs[0], batch.targets[0],
                                             torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)),
        batch.samples};
  };
  return job;
}
