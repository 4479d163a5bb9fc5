#include "trireme/model/dropout.h"

#include <torch/torch.h>

#include "trireme/base/error.h"
#include "trireme/base/random.h"
#include "trireme/layers/forward_scope.h"

namespace trireme::model {

bool dropout_acts(double probability) {
  return probability > 0 && layers::forward_state().training;
}

at::Tensor keyed_dropout(const at::Tensor& x, int64_t samples, double probability, const std::string& name) {
  if (!dropout_acts(probability) || x.numel() == 0) return x;
  TRIREME_CHECK(x.numel() % samples == 0, x.numel(), " elements, ", samples, " samples");
  const auto& state = layers::forward_state();
  const int64_t elements_a_sample = x.numel() / samples;
  at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kFloat).requires_grad(false));
  base::fill_uniform(mask.mutable_data_ptr<float>(), state.first_row * elements_a_sample, mask.numel(),
                     base::hash(state.seed, static_cast<uint64_t>(state.step)), name);
  return x * mask.ge_(probability).mul_(1 / (1 - probability)).to(x.scalar_type());
}

}  // namespace trireme::model
