#pragma once

#include <cstdint>
#include <vector>

#include "trireme/data/dataset.h"

namespace trireme::data {

enum class SyntheticTask {
  Regression,      ///< targets float [samples, outputs]: the teacher's outputs
  Classification,  ///< targets int64 [samples]: the index of the teacher's largest output
};

struct SyntheticOptions {
  SyntheticTask task = SyntheticTask::Regression;
  int64_t samples = 1024;
  int64_t first = 0;    ///< index of sample 0 in the endless stream of samples, so that datasets can be disjoint
  int64_t inputs = 16;  ///< features a sample
  int64_t outputs = 4;  ///< targets or classes
  int64_t hidden = 16;  ///< width of the teacher
  uint64_t seed = 0;
};

/// Samples to learn from without a file: inputs float [samples, inputs] are standard normal, targets come from a fixed
/// random teacher, outputs = W2 max(W1 x, 0). All follow from (seed, sample index) alone, so any sample can be made
/// without the others, by any rank.
class SyntheticDataset : public Dataset {
 public:
  /// Throws base::ConfigError unless all sizes are at least 1.
  explicit SyntheticDataset(const SyntheticOptions& options);

  int64_t size() const override { return options_.samples; }
  Batch batch(std::span<const int64_t> samples) const override;

 private:
  /// The teacher's answer to one sample's `inputs` features.
  void teach(const float* features, float* outputs) const;

  SyntheticOptions options_;
  std::vector<float> first_;   // [hidden, inputs]
  std::vector<float> second_;  // [outputs, hidden]
};

}  // namespace trireme::data
