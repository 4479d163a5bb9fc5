#include "trireme/data/token_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::data {

using base::ConfigError;
using base::DataError;
using base::text_of;

TokenDataset::TokenDataset(std::shared_ptr<const base::TokenFile> file, TokenRange range, int64_t sequence_length,
                           int64_t vocab_size)
    : file_(std::move(file)), range_(range), sequence_length_(sequence_length), vocab_size_(vocab_size) {
  if (sequence_length < 1) {
    throw ConfigError(text_of("the sequence length must be at least 1 token: ", sequence_length));
  }
  TRIREME_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= file_->size(), "range [", range.begin,
                ", ", range.end, ") of ", file_->size(), " tokens");
  if (range.size() <= sequence_length) {
    throw DataError(text_of(file_->path(), ": too short, ", range.size(), " tokens where a window needs ",
                            sequence_length, " + 1; use more data or shorter sequences"));
  }
}

Batch TokenDataset::batch(std::span<const int64_t> samples) const {
  const auto count = static_cast<int64_t>(samples.size());
  at::Tensor inputs = at::empty({count, sequence_length_}, at::kLong);
  at::Tensor targets = at::empty({count, sequence_length_}, at::kLong);
  std::vector<int64_t> window(sequence_length_ + 1);
  for (int64_t row = 0; row < count; ++row) {
    TRIREME_CHECK(samples[row] >= 0 && samples[row] < size(), "sample ", samples[row], " of ", size());
    const int64_t first = range_.begin + samples[row] * sequence_length_;
    file_->read(first, window, vocab_size_);
    std::copy_n(window.begin(), sequence_length_, inputs.mutable_data_ptr<int64_t>() + row * sequence_length_);
    std::copy_n(window.begin() + 1, sequence_length_, targets.mutable_data_ptr<int64_t>() + row * sequence_length_);
  }
  return {{inputs}, {targets}, count};
}

TokenSplit split(int64_t token_count, double validation_fraction, int64_t sequence_length) {
  if (!(validation_fraction >= 0 && validation_fraction < 1)) {
    throw ConfigError(text_of("validation_fraction must be at least 0 and below 1: ", validation_fraction));
  }
  if (sequence_length < 1) {
    throw ConfigError(text_of("the sequence length must be at least 1 token: ", sequence_length));
  }
  const int64_t window = sequence_length + 1;
  const bool validate = validation_fraction > 0;
  const int64_t needed = validate ? 2 * window : window;
  if (token_count < needed) {
    throw DataError(text_of("the data is too short: ", token_count, " tokens, ", needed, " are needed for a ",
                            validate ? "training and a validation" : "training", " window of ", sequence_length,
                            " + 1 tokens", validate ? " each" : "", "; use more data or shorter sequences"));
  }
  int64_t tail = 0;
  if (validate) {
    tail = std::llround(static_cast<double>(token_count) * validation_fraction);
    tail = std::clamp(tail, window, token_count - window);
  }
  return {{0, token_count - tail}, {token_count - tail, token_count}};
}

}  // namespace trireme::data
