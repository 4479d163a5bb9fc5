#pragma once

#include <cstdint>
#include <vector>

#include "trireme/layers/model.h"

namespace trireme::train {

struct SampleRequest {
  std::vector<int64_t> prompt;  // token ids, at least one
  int64_t length = 400;         // tokens to add
  int64_t context = 0;          // the longest sequence that the model takes
  double temperature = 0.8;     // 0: always the likeliest token
  uint64_t seed = 0;
};

/// The tokens that a language model adds to the prompt, one by one. The model maps int64 [1, sequence] to logits
/// [1, sequence, vocabulary]; it is put into evaluation mode and left in it.
std::vector<int64_t> sample(layers::Model& model, const SampleRequest& request);

}  // namespace trireme::train
