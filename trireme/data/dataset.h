#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

/// What one micro-batch of one rank holds. Every tensor is [samples, ...]. A rank for which an epoch's last, smaller
/// batch leaves nothing gets samples = 0 and no tensors.
struct Batch {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  int64_t samples = 0;
};

/// Samples by index. Members are called from the loader's thread as well as from the main one, at the same time. Plain
/// loops are best there: an ATen operation that runs in parallel starts a second pool of threads beside the step's.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Samples; does not change.
  virtual int64_t size() const = 0;

  /// Items (tokens, pixels, ...) a sample, for the count of items a second.
  virtual int64_t items_per_sample() const { return 1; }

  /// The given samples, each in [0, size()), in the given order; never asked for none. Throws base::DataError.
  virtual Batch batch(std::span<const int64_t> samples) const = 0;

  /// The same, in pass `epoch` over the data. Override it where a sample is drawn anew in every epoch (augmentation)
  /// and take the randomness from sample_bits() (sampling.h), so that no layout, rank or restart changes it.
  virtual Batch batch_in_epoch(std::span<const int64_t> samples, int64_t epoch) const;
};

/// Throws base::DataError, which names the sample of the dataset and the element, if a tensor of floats in the batch
/// holds NaN or infinity. `samples` are the indices that the batch was made from.
void check_finite(const Batch& batch, std::span<const int64_t> samples);

/// Throws base::DataError unless the batch holds `samples` samples in every tensor and at least one input.
void check_shapes(const Batch& batch, int64_t samples);

}  // namespace trireme::data
