#include "trireme/model/dropout.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "trireme/layers/forward_scope.h"

namespace trireme::model {
namespace {

TEST(Dropout, keeps_the_right_share_and_scales_it) {
  layers::ForwardScope scope({.seed = 1, .step = 2, .first_row = 0, .training = true});
  constexpr double p = 0.1;
  const at::Tensor y = keyed_dropout(at::ones({100, 1000}), 100, p, "a");
  const double kept = (y != 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 1 - p, 3 * std::sqrt(p * (1 - p) / 1e5));
  EXPECT_FLOAT_EQ(y.max().item<float>(), float(1 / (1 - p)));
}

TEST(Dropout, masks_differ_by_name_and_step_and_repeat_by_row) {
  const at::Tensor x = at::ones({4, 64});
  auto mask = [&](const std::string& name, int64_t step, int64_t first_row, int64_t rows) {
    layers::ForwardScope scope({.seed = 1, .step = step, .first_row = first_row, .training = true});
    return keyed_dropout(x.narrow(0, 0, rows), rows, 0.5, name);
  };
  const at::Tensor base = mask("a", 0, 0, 4);
  EXPECT_TRUE(at::equal(base, mask("a", 0, 0, 4)));
  EXPECT_TRUE(at::equal(base.narrow(0, 1, 3), mask("a", 0, 1, 3)));
  EXPECT_FALSE(at::equal(base, mask("b", 0, 0, 4)));
  EXPECT_FALSE(at::equal(base, mask("a", 1, 0, 4)));
}

TEST(Dropout, depends_on_the_sample_and_not_on_how_x_is_viewed) {
  const at::Tensor x = at::ones({4, 6, 8});
  auto mask = [](const at::Tensor& part, int64_t samples, int64_t first_row) {
    layers::ForwardScope scope({.seed = 1, .step = 0, .first_row = first_row, .training = true});
    return keyed_dropout(part, samples, 0.5, "a").view({samples, 6, 8});
  };
  const at::Tensor whole = mask(x, 4, 0);
  EXPECT_TRUE(at::equal(whole, mask(x.view({24, 8}), 4, 0)));
  EXPECT_TRUE(at::equal(whole.narrow(0, 2, 2), mask(x.view({24, 8}).narrow(0, 0, 12), 2, 2)));
}

TEST(Dropout, is_the_identity_outside_training_and_at_zero) {
  const at::Tensor x = at::ones({2, 3});
  EXPECT_TRUE(keyed_dropout(x, 2, 0.5, "a").is_same(x));
  layers::ForwardScope scope({.seed = 1, .step = 0, .first_row = 0, .training = true});
  EXPECT_TRUE(keyed_dropout(x, 2, 0, "a").is_same(x));
  EXPECT_FALSE(keyed_dropout(x, 2, 0.5, "a").is_same(x));
}

TEST(Dropout, passes_the_gradient_of_what_it_kept) {
  layers::ForwardScope scope({.seed = 1, .step = 0, .first_row = 0, .training = true});
  const at::Tensor x = at::ones({8, 8}).set_requires_grad(true);
  const at::Tensor y = keyed_dropout(x, 8, 0.25, "a");
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
}

}  // namespace
}  // namespace trireme::model
