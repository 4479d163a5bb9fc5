#include "trireme/optim/gradient_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/optim/kernels.h"

namespace trireme::optim {
namespace {

TEST(GradientNorm, is_the_fp64_sum_of_squares_of_a_range) {
  torch::manual_seed(1);
  at::Tensor flat = at::randn({100003});
  for (auto [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 100003}, {0, 0}, {5, 6}, {17, 4130}, {1, 99999}}) {
    const double expected = flat.slice(0, begin, end).to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(squared_norm(flat, begin, end), expected, 1e-12 * (1 + expected)) << begin << " to " << end;
  }
}

TEST(GradientNorm, B027_large_norms_of_four_ranks_neither_overflow_nor_coarsen) {
  for (double local : {300.0, 100.25}) {
    double sum = 0;
    for (int rank = 0; rank < 4; ++rank) sum += squared_norm(at::full({1}, float(local)), 0, 1);
    EXPECT_NEAR(std::sqrt(sum), 2 * local, 1e-6 * local);
  }
  // beyond what fp32 squares can hold
  EXPECT_NEAR(std::sqrt(squared_norm(at::full({16}, 1e30f), 0, 16)) / 4e30, 1, 1e-6);
}

TEST(GradientNorm, bits_do_not_depend_on_threads) {
  torch::manual_seed(2);
  at::Tensor flat = at::randn({500001});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double one = squared_norm(flat, 3, 500000);
  at::set_num_threads(3);
  EXPECT_EQ(squared_norm(flat, 3, 500000), one);
  at::set_num_threads(threads);
}

TEST(GradientNorm, non_finite_values_carry_through) {
  at::Tensor flat = at::ones({10000});
  flat[9999] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(squared_norm(flat, 0, 10000)));
  flat[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(squared_norm(flat, 0, 10000)));
  EXPECT_EQ(squared_norm(flat, 2, 9999), 9997);
}

TEST(GradientNorm, refuses_what_is_not_a_flat_fp32_range) {
  EXPECT_THROW(squared_norm(at::ones({4}, at::kDouble), 0, 4), base::InternalError);
  EXPECT_THROW(squared_norm(at::ones({2, 2}), 0, 4), base::InternalError);
  EXPECT_THROW(squared_norm(at::ones({4}), 2, 5), base::InternalError);
}

TEST(ClipFactor, follows_torch_and_deepspeed) {
  EXPECT_EQ(clip_factor(5, 1), 1 / (5 + 1e-6));
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(1e9, 0), 1);
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1)));
  // DeepSpeed's way round
  for (double norm : {0.1, 0.999999, 1.0, 3.7}) {
    EXPECT_NEAR(clip_factor(norm, 1), 1 / std::max(1.0, (norm + 1e-6) / 1), 1e-15);
  }
}

TEST(Kernels, every_instruction_set_gives_the_same_bits) {
  Kernels variants[3];
  const int found = kernel_variants(variants);
  const AdamTerms adam{0.7f, 0.999f, 0.01f, 0.9f, 0.1f, 0.999f, 0.001f, 3.2f, 1e-8f, 0.01f};
  const SgdTerms sgd{0.7f, 0.01f, 0.9f, 0.8f, 0.1f};
  for (int64_t count : {0, 1, 7, 33, 1003}) {
    torch::manual_seed(5);
    const at::Tensor w = at::randn({count}), g = at::randn({count}), m = at::randn({count}), v = at::rand({count});
    auto run = [&](const Kernels& kernels) {
      at::Tensor a = w.clone(), b = m.clone(), c = v.clone(), d = w.clone(), e = m.clone();
      kernels.adam(a.data_ptr<float>(), g.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), count, adam);
      for (SgdRule rule : {SgdRule::Plain, SgdRule::MomentumFirstStep, SgdRule::Momentum, SgdRule::NesterovFirstStep,
                           SgdRule::Nesterov})
        kernels.sgd(d.data_ptr<float>(), g.data_ptr<float>(), e.data_ptr<float>(), count, sgd, rule);
      return std::pair(at::stack({a, b, c, d, e}), kernels.squared_sum(w.data_ptr<float>(), count));
    };
    const auto [bits, sum] = run(variants[0]);
    for (int i = 1; i < found; ++i) {
      const auto [other_bits, other_sum] = run(variants[i]);
      EXPECT_TRUE(at::equal(bits, other_bits)) << "variant " << i << " count " << count;
      EXPECT_EQ(sum, other_sum) << "variant " << i << " count " << count;
    }
  }
}

}  // namespace
}  // namespace trireme::optim
