#include "trireme/optim/flat_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/optim/gradient_norm.h"

namespace trireme::optim {
namespace {

spec::OptimizerConfig config_of(const std::string& type) {
  spec::OptimizerConfig config;
  config.type = type;
  config.lr = 0.01;
  config.beta1 = 0.9;
  config.beta2 = 0.999;
  config.eps = 1e-8;
  config.weight_decay = 0;
  config.momentum = 0;
  config.dampening = 0;
  config.nesterov = false;
  config.decoupled_decay = type != "sgd";
  config.bias_correction = true;
  return config;
}

at::Tensor values(std::vector<float> list) {
  return at::tensor(list);
}

struct Variant {
  const char* name;
  spec::OptimizerConfig config;
};

spec::OptimizerConfig with(spec::OptimizerConfig config, auto change) {
  change(config);
  return config;
}

// torch::optim with our config on one group of parameters
std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const spec::OptimizerConfig& c,
                                                         std::vector<at::Tensor> decayed,
                                                         std::vector<at::Tensor> exempt, double exempt_lr_scale) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  auto add = [&](std::vector<at::Tensor> parameters, double decay, double lr) {
    std::unique_ptr<torch::optim::OptimizerOptions> options;
    if (c.type == "sgd") {
      options = std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(lr)
                                                               .momentum(c.momentum)
                                                               .dampening(c.dampening)
                                                               .nesterov(c.nesterov)
                                                               .weight_decay(decay));
    } else if (c.decoupled_decay) {
      options = std::make_unique<torch::optim::AdamWOptions>(
          torch::optim::AdamWOptions(lr).betas({c.beta1, c.beta2}).eps(c.eps).weight_decay(decay));
    } else {
      options = std::make_unique<torch::optim::AdamOptions>(
          torch::optim::AdamOptions(lr).betas({c.beta1, c.beta2}).eps(c.eps).weight_decay(decay));
    }
    groups.emplace_back(std::move(parameters), std::move(options));
  };
  add(std::move(decayed), c.weight_decay, c.lr);
  add(std::move(exempt), 0, c.lr * exempt_lr_scale);
  if (c.type == "sgd") return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(c.lr));
  if (c.decoupled_decay) return std::make_unique<torch::optim::AdamW>(groups);
  return std::make_unique<torch::optim::Adam>(groups);
}

class SameAsTorch : public testing::TestWithParam<Variant> {};

TEST_P(SameAsTorch, twenty_steps_over_shapes_groups_and_padding) {
  const auto& config = GetParam().config;
  torch::manual_seed(7);
  // odd lengths, an empty one, one of several threads' grains; the second group does not decay and learns at half rate
  const std::vector<int64_t> lengths = {8, 0, 24, 1, 1021, 50001};
  const std::vector<bool> decays = {true, true, false, true, false, true};
  constexpr int64_t kPadding = 16;
  constexpr float kPaddingValue = 123.25f;

  std::vector<Segment> segments;
  std::vector<at::Tensor> reference, decayed, exempt;
  int64_t total = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    segments.push_back({total, total + lengths[i], decays[i], decays[i] ? 1.0 : 0.5});
    total += lengths[i] + kPadding;
    reference.push_back(at::randn({lengths[i]}).set_requires_grad(true));
    (decays[i] ? decayed : exempt).push_back(reference.back());
  }
  at::Tensor parameters = at::full({total}, kPaddingValue);
  at::Tensor gradients = at::full({total}, kPaddingValue);
  for (size_t i = 0; i < lengths.size(); ++i)
    parameters.slice(0, segments[i].begin, segments[i].end).copy_(reference[i].detach());

  FlatOptimizer ours(config, parameters, gradients, segments);
  auto theirs = torch_optimizer(config, decayed, exempt, 0.5);
  // a power of two, so that the scaled gradient has the same bits
  constexpr double kScale = 0.125;
  for (int step = 0; step < 20; ++step) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      at::Tensor gradient = at::randn({lengths[i]});
      reference[i].mutable_grad() = gradient;
      gradients.slice(0, segments[i].begin, segments[i].end).copy_(gradient / kScale);
    }
    ours.step(config.lr, kScale);
    theirs->step();
  }

  EXPECT_EQ(ours.steps(), 20);
  at::Tensor covered = at::zeros({total}, at::kBool);
  for (size_t i = 0; i < lengths.size(); ++i) {
    covered.slice(0, segments[i].begin, segments[i].end).fill_(true);
    if (lengths[i] == 0) continue;
    at::Tensor mine = parameters.slice(0, segments[i].begin, segments[i].end);
    // one rounding of the largest weight a step
    const double bound = 20 * 6e-8 * std::max(1.0, reference[i].abs().max().item<double>());
    EXPECT_LE((mine - reference[i]).abs().max().item<double>(), bound) << "length " << lengths[i];
  }
  EXPECT_TRUE((parameters.masked_select(covered.logical_not()) == kPaddingValue).all().item<bool>());
  for (const auto& state : ours.state())
    EXPECT_TRUE((state.value.masked_select(covered.logical_not()) == 0).all().item<bool>()) << state.name;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, SameAsTorch,
    testing::Values(Variant{"adamw", with(config_of("adamw"), [](auto& c) { c.weight_decay = 0.1; })},
                    Variant{"adamw_no_decay", config_of("adamw")},
                    Variant{"adamw_betas", with(config_of("adamw"),
                                                [](auto& c) {
                                                  c.weight_decay = 0.01;
                                                  c.beta1 = 0.8;
                                                  c.beta2 = 0.95;
                                                  c.eps = 1e-6;
                                                })},
                    Variant{"adam_decoupled", with(config_of("adam"), [](auto& c) { c.weight_decay = 0.1; })},
                    Variant{"adam_l2", with(config_of("adam"),
                                            [](auto& c) {
                                              c.weight_decay = 0.1;
                                              c.decoupled_decay = false;
                                            })},
                    Variant{"sgd", with(config_of("sgd"), [](auto& c) { c.weight_decay = 0.1; })},
                    Variant{"sgd_momentum", with(config_of("sgd"), [](auto& c) { c.momentum = 0.9; })},
                    Variant{"sgd_dampening", with(config_of("sgd"),
                                                  [](auto& c) {
                                                    c.momentum = 0.9;
                                                    c.dampening = 0.3;
                                                    c.weight_decay = 0.01;
                                                  })},
                    Variant{"sgd_nesterov", with(config_of("sgd"),
                                                 [](auto& c) {
                                                   c.momentum = 0.9;
                                                   c.nesterov = true;
                                                   c.weight_decay = 0.01;
                                                 })}),
    [](const auto& info) { return info.param.name; });

TEST(OptimCases, B063_decoupled_decay_gives_0_99_and_l2_gives_0_9) {
  auto one_step = [](const std::string& type, bool decoupled) {
    auto config = config_of(type);
    config.weight_decay = 0.1;
    config.decoupled_decay = decoupled;
    at::Tensor w = at::ones({1});
    FlatOptimizer optimizer(config, w, at::zeros({1}), {{0, 1}});
    optimizer.step(0.1, 1);
    return w.item<float>();
  };
  EXPECT_FLOAT_EQ(one_step("adamw", true), 0.99f);
  EXPECT_FLOAT_EQ(one_step("adam", true), 0.99f);
  EXPECT_NEAR(one_step("adam", false), 0.9f, 1e-6);
}

TEST(OptimCases, B055_the_eleventh_step_after_a_load_moves_by_the_learning_rate) {
  constexpr double kRate = 0.01;
  const auto config = config_of("adamw");
  at::Tensor w = at::zeros({1});
  at::Tensor gradient = at::ones({1});
  FlatOptimizer saved(config, w, gradient, {{0, 1}});
  for (int i = 0; i < 10; ++i) saved.step(kRate, 1);

  auto eleventh_update = [&](int64_t steps) {
    at::Tensor restored = at::zeros({1});
    FlatOptimizer optimizer(config, restored, gradient, {{0, 1}});
    for (size_t i = 0; i < optimizer.state().size(); ++i) optimizer.state()[i].value.copy_(saved.state()[i].value);
    optimizer.set_steps(steps);
    optimizer.step(kRate, 1);
    return -restored.item<double>() / kRate;
  };
  EXPECT_NEAR(eleventh_update(saved.steps()), 1.000, 1e-5);
  // what a lost counter would give
  EXPECT_NEAR(eleventh_update(0), 2.0741, 1e-3);
}

TEST(OptimCases, B073_small_decay_reaches_fp32_parameters) {
  auto config = config_of("adamw");
  config.weight_decay = 0.01;
  at::Tensor w = at::ones({1});
  FlatOptimizer optimizer(config, w, at::zeros({1}), {{0, 1}});
  for (int i = 0; i < 1000; ++i) optimizer.step(1e-4, 1);
  // each product rounds to a multiple of 2^-24 just below 1: 17 of them instead of 16.8
  EXPECT_NEAR(w.item<double>(), 0.99900, 1.5e-5);
}

TEST(OptimCases, B025_unscale_then_clip_moves_by_one) {
  constexpr double kLossScale = 1024;
  at::Tensor w = at::zeros({1});
  at::Tensor gradient = values({10 * kLossScale});
  FlatOptimizer optimizer(config_of("sgd"), w, gradient, {{0, 1}});
  const double norm = std::sqrt(squared_norm(gradient, 0, 1)) / kLossScale;
  optimizer.step(1.0, clip_factor(norm, 1.0) / kLossScale);
  EXPECT_NEAR(w.item<double>(), -1.0, 1e-6);
}

TEST(FlatOptimizer, without_bias_correction_the_first_update_is_that_of_raw_moments) {
  auto config = config_of("adamw");
  config.bias_correction = false;
  at::Tensor w = at::zeros({1});
  FlatOptimizer optimizer(config, w, at::ones({1}), {{0, 1}});
  optimizer.step(0.01, 1);
  EXPECT_NEAR(w.item<double>(), -0.01 * 0.1 / std::sqrt(0.001), 1e-7);
}

TEST(FlatOptimizer, bits_do_not_depend_on_threads_or_segment_borders) {
  const int threads = at::get_num_threads();
  auto run = [](int count, std::vector<Segment> segments) {
    at::set_num_threads(count);
    torch::manual_seed(3);
    at::Tensor w = at::randn({200003}), gradient = at::randn({200003});
    auto config = config_of("adamw");
    config.weight_decay = 0.1;
    FlatOptimizer optimizer(config, w, gradient, std::move(segments));
    for (int i = 0; i < 3; ++i) optimizer.step(0.01, 0.7);
    return w;
  };
  at::Tensor one = run(1, {{0, 200003}});
  EXPECT_TRUE(at::equal(one, run(3, {{0, 200003}})));
  EXPECT_TRUE(at::equal(one, run(2, {{0, 77}, {77, 100000}, {100000, 200003}})));
  at::set_num_threads(threads);
}

TEST(FlatOptimizer, state_is_named_as_in_torch_and_shares_memory) {
  at::Tensor w = at::zeros({4}), gradient = at::ones({4});
  auto names = [&](const spec::OptimizerConfig& config) {
    std::vector<std::string> result;
    for (const auto& state : FlatOptimizer(config, w, gradient, {{0, 4}}).state()) result.push_back(state.name);
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(config_of("adamw")), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(names(config_of("sgd")), Names{});
  auto momentum = with(config_of("sgd"), [](auto& c) { c.momentum = 0.5; });
  EXPECT_EQ(names(momentum), Names{"momentum_buffer"});

  FlatOptimizer optimizer(momentum, w, gradient, {{0, 4}});
  optimizer.state()[0].value.fill_(4);
  optimizer.set_steps(1);
  optimizer.step(1, 1);
  EXPECT_TRUE(at::equal(w, at::full({4}, -3.f)));
}

TEST(FlatOptimizer, refuses_unknown_types_and_broken_segments) {
  at::Tensor w = at::zeros({4}), gradient = at::ones({4});
  try {
    FlatOptimizer(config_of("adamm"), w, gradient, {{0, 4}});
    FAIL() << "accepted";
  } catch (const base::ConfigError& error) {
    EXPECT_STREQ(error.what(), "unknown optimizer type \"adamm\"; use adamw, adam or sgd");
  }
  EXPECT_THROW(FlatOptimizer(config_of("sgd"), w, gradient, {{0, 3}, {2, 4}}), base::InternalError);
  EXPECT_THROW(FlatOptimizer(config_of("sgd"), w, gradient, {{0, 5}}), base::InternalError);
  EXPECT_THROW(FlatOptimizer(config_of("sgd"), w.to(at::kDouble), gradient, {{0, 4}}), base::InternalError);
  EXPECT_THROW(FlatOptimizer(config_of("sgd"), w, at::ones({5}), {{0, 4}}), base::InternalError);
}

}  // namespace
}  // namespace trireme::optim
