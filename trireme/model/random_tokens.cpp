#include "trireme/model/random_tokens.h"

#include <ATen/ops/empty.h>

#include "trireme/base/error.h"
#include "trireme/base/random.h"

namespace trireme::model {

RandomTokens::RandomTokens(int64_t samples, int64_t sequence_length, int64_t vocab_size, uint64_t seed)
    : samples_(samples), sequence_length_(sequence_length), vocab_size_(vocab_size), seed_(seed) {
  TRIREME_CHECK(samples > 0 && sequence_length > 0 && vocab_size > 0, samples, " ", sequence_length, " ", vocab_size);
}

data::Batch RandomTokens::batch(std::span<const int64_t> samples) const {
  const auto rows = static_cast<int64_t>(samples.size());
  at::Tensor inputs = at::empty({rows, sequence_length_}, at::kLong);
  at::Tensor targets = at::empty({rows, sequence_length_}, at::kLong);
  auto* input = inputs.mutable_data_ptr<int64_t>();
  auto* target = targets.mutable_data_ptr<int64_t>();
  for (const int64_t sample : samples) {
    const uint64_t key = base::hash(seed_, static_cast<uint64_t>(sample));
    auto token = [&](int64_t position) {
      return static_cast<int64_t>(base::uniform(key, static_cast<uint64_t>(position)) * double(vocab_size_));
    };
    for (int64_t position = 0; position < sequence_length_; ++position) {
      *input++ = token(position);
      *target++ = token(position + 1);
    }
  }
  return {{inputs}, {targets}, rows};
}

}  // namespace trireme::model
