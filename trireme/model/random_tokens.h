#pragma once

#include <cstdint>
#include <span>

#include "trireme/data/dataset.h"

namespace trireme::model {

/// Sequences of uniformly random tokens, as inputs and, one token later, targets: int64 [samples, sequence_length].
/// Each follows from (seed, sample index) alone.
class RandomTokens : public data::Dataset {
 public:
  RandomTokens(int64_t samples, int64_t sequence_length, int64_t vocab_size, uint64_t seed);

  int64_t size() const override { return samples_; }
  int64_t items_per_sample() const override { return sequence_length_; }
  data::Batch batch(std::span<const int64_t> samples) const override;

 private:
  int64_t samples_;
  int64_t sequence_length_;
  int64_t vocab_size_;
  uint64_t seed_;
};

}  // namespace trireme::model
