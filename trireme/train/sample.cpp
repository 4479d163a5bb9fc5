#include "trireme/train/sample.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/random.h"

namespace trireme::train {

std::vector<int64_t> sample(layers::Model& model, const SampleRequest& request) {
  if (request.prompt.empty()) throw base::UsageError("the prompt is empty; give at least one token");
  at::NoGradGuard no_grad;
  model.train(false);
  auto tokens = request.prompt;
  const auto key = base::hash(request.seed, "sample");
  for (int64_t i = 0; i < request.length; ++i) {
    const auto seen = std::min<int64_t>(static_cast<int64_t>(tokens.size()), request.context);
    auto input = at::from_blob(tokens.data() + tokens.size() - seen, {1, seen}, at::kLong).clone();
    const auto logits = model.forward({input})[0][0][seen - 1].to(at::kDouble);
    if (!logits.isfinite().all().item<bool>())
      throw base::NonFiniteError(base::text_of("the model's outputs are not finite after ", tokens.size(),
                                               " tokens; its weights are damaged or the training diverged"));
    if (request.temperature <= 0) {
      tokens.push_back(logits.argmax().item<int64_t>());
      continue;
    }
    // the first token whose cumulated probability passes a uniform number
    const auto passed =
        at::softmax(logits / request.temperature, 0).cumsum(0) > base::uniform(key, static_cast<uint64_t>(i));
    tokens.push_back(passed.any().item<bool>() ? passed.to(at::kByte).argmax().item<int64_t>()
                                               : logits.argmax().item<int64_t>());
  }
  return {tokens.begin() + static_cast<int64_t>(request.prompt.size()), tokens.end()};
}

}  // namespace trireme::train
