#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "trireme/base/tokens.h"
#include "trireme/data/dataset.h"

namespace trireme::data {

/// Tokens [begin, end) of a file.
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const TokenRange&) const = default;
};

/// Sequence windows that lie side by side in a range of a token file: sample i is
///   inputs  tokens [begin + i * T, begin + i * T + T)       int64 [samples, T]
///   targets the same, one token later                       int64 [samples, T]
/// so there are (tokens - 1) / T samples; the rest of the range is not used.
class TokenDataset : public Dataset {
 public:
  /// T = sequence_length. batch() throws base::DataError, with file, position and id, at a token that is not below
  /// `vocab_size`, and if the file has shrunk. Requires a range within the file; throws base::DataError if it holds no
  /// window, base::ConfigError if T < 1.
  TokenDataset(std::shared_ptr<const base::TokenFile> file, TokenRange range, int64_t sequence_length,
               int64_t vocab_size = std::numeric_limits<int64_t>::max());

  int64_t size() const override { return (range_.size() - 1) / sequence_length_; }
  int64_t items_per_sample() const override { return sequence_length_; }
  Batch batch(std::span<const int64_t> samples) const override;

 private:
  std::shared_ptr<const base::TokenFile> file_;
  TokenRange range_;
  int64_t sequence_length_;
  int64_t vocab_size_;
};

struct TokenSplit {
  TokenRange training;
  TokenRange validation;  ///< the file's tail; empty if the fraction is 0
};

/// Keeps the last `validation_fraction`, in [0, 1), of the tokens for validation, but at least a window of
/// sequence_length + 1 tokens for each of the two. Throws base::DataError, which says how many tokens there are and how
/// many are needed, and base::ConfigError for a fraction outside of its range.
TokenSplit split(int64_t token_count, double validation_fraction, int64_t sequence_length);

}  // namespace trireme::data
