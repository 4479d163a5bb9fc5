#include "trireme/checkpoint/optimizer_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "trireme/base/error.h"

namespace trireme::checkpoint {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGD;
using torch::optim::SGDOptions;

std::vector<NamedTensor> scalars(std::initializer_list<const char*> names) {
  std::vector<NamedTensor> parameters;
  for (const char* name : names) parameters.push_back({name, torch::ones({1}, torch::requires_grad())});
  return parameters;
}

/// A step with gradient 1 everywhere.
void step(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters) {
  for (const NamedTensor& parameter : parameters) parameter.tensor.mutable_grad() = torch::ones({1});
  optimizer.step();
}

/// State and moments of one optimizer, as they would come back from a file.
struct Saved {
  base::Json json;
  std::map<std::string, at::Tensor> moments;

  Saved(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters) {
    auto [options, tensors] = optimizer_state(optimizer, parameters);
    json = base::Json::parse(options.dump());
    for (const NamedTensor& tensor : tensors) moments[tensor.name] = tensor.tensor.clone();
  }
  ReadTensor reader() const {
    return [this](const NamedTensor& target) {
      at::Tensor tensor = target.tensor;
      tensor.copy_(moments.at(target.name));
    };
  }
};

double value(const NamedTensor& parameter) {
  return parameter.tensor.item<double>();
}

std::vector<OptimizerParamGroup> two_groups(const std::vector<NamedTensor>& p, const SGDOptions& a,
                                            const SGDOptions& b) {
  return {OptimizerParamGroup({p[0].tensor}, std::make_unique<SGDOptions>(a)),
          OptimizerParamGroup({p[1].tensor}, std::make_unique<SGDOptions>(b))};
}

TEST(CheckpointCases, X06_options_come_back) {
  const auto before = scalars({"a", "b"}), after = scalars({"a", "b"});
  // 0.001 is libtorch's own default, which a group replaces by the default of its optimizer: the same here
  SGD saver(two_groups(before, SGDOptions(0.01).weight_decay(0.1), SGDOptions(0.001)), SGDOptions(0.001));
  SGD loader(two_groups(after, SGDOptions(1.0), SGDOptions(1.0)), SGDOptions(1.0));
  const Saved saved(saver, before);
  load_optimizer_state(loader, saved.json, after, saved.reader());
  step(loader, after);
  EXPECT_NEAR(value(after[0]), 0.989, 1e-7);
  EXPECT_NEAR(value(after[1]), 0.999, 1e-7);
}

TEST(CheckpointCases, X06_adamw_betas_and_eps) {
  const auto before = scalars({"a"}), after = scalars({"a"});
  AdamW saver({before[0].tensor}, AdamWOptions(0.02).betas({0.8, 0.95}).eps(1e-5).weight_decay(0.3).amsgrad(true));
  AdamW loader({after[0].tensor}, AdamWOptions(1.0));
  const Saved saved(saver, before);
  load_optimizer_state(loader, saved.json, after, saved.reader());
  const auto& options = static_cast<const AdamWOptions&>(loader.param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.02);
  EXPECT_EQ(options.betas(), std::make_tuple(0.8, 0.95));
  EXPECT_EQ(options.eps(), 1e-5);
  EXPECT_EQ(options.weight_decay(), 0.3);
  EXPECT_TRUE(options.amsgrad());
}

TEST(CheckpointCases, B055_step_counter_comes_back) {
  const auto before = scalars({"a"}), after = scalars({"a"});
  const double lr = 0.001;
  torch::optim::Adam saver({before[0].tensor}, torch::optim::AdamOptions(lr).betas({0.9, 0.999}));
  torch::optim::Adam loader({after[0].tensor}, torch::optim::AdamOptions(1.0));
  for (int i = 0; i < 10; ++i) step(saver, before);
  const Saved saved(saver, before);
  load_optimizer_state(loader, saved.json, after, saved.reader());
  step(loader, after);
  EXPECT_NEAR((1.0 - value(after[0])) / lr, 1.0, 1e-3);  // wrong: 2.0741
}

template <class Optimizer, class Options>
void expect_the_same_run(const Options& options, const Options& other) {
  const auto before = scalars({"a", "b"}), after = scalars({"a", "b"});
  Optimizer saver({before[0].tensor, before[1].tensor}, options);
  Optimizer loader({after[0].tensor, after[1].tensor}, other);
  for (int i = 0; i < 3; ++i) step(saver, before);
  for (size_t i = 0; i < 2; ++i) after[i].tensor.data().copy_(before[i].tensor.data());
  const Saved saved(saver, before);
  load_optimizer_state(loader, saved.json, after, saved.reader());
  for (int i = 0; i < 3; ++i) {
    step(saver, before);
    step(loader, after);
    EXPECT_EQ(value(after[0]), value(before[0]));
    EXPECT_EQ(value(after[1]), value(before[1]));
  }
}

TEST(OptimizerState, TheRunGoesOnBitForBit) {
  using namespace torch::optim;
  expect_the_same_run<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01), SGDOptions(1.0));
  expect_the_same_run<SGD>(SGDOptions(0.1).momentum(0.5).dampening(0.2), SGDOptions(1.0).momentum(0.9));
  expect_the_same_run<Adam>(AdamOptions(0.1).amsgrad(true), AdamOptions(1.0));
  expect_the_same_run<AdamW>(AdamWOptions(0.1).weight_decay(0.2), AdamWOptions(1.0));
}

TEST(OptimizerState, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const auto before = scalars({"a", "b"}), after = scalars({"a", "b"});
  SGD saver({before[0].tensor, before[1].tensor}, SGDOptions(0.1).momentum(0.9));
  step(saver, before);
  const Saved saved(saver, before);
  const auto error_of = [&](torch::optim::Optimizer& optimizer, const ReadTensor& read) -> std::string {
    try {
      load_optimizer_state(optimizer, saved.json, after, read);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  AdamW other_type({after[0].tensor, after[1].tensor});
  EXPECT_EQ(error_of(other_type, saved.reader()), "the checkpoint holds the state of SGD, not of AdamW");
  SGD other_order({after[1].tensor, after[0].tensor}, SGDOptions(1.0));
  EXPECT_EQ(error_of(other_order, saved.reader()),
            "parameter 0 of the optimizer's group 0 is a in the checkpoint and b here");
  SGD fewer({after[0].tensor}, SGDOptions(1.0));
  EXPECT_EQ(error_of(fewer, saved.reader()),
            "parameter 1 of the optimizer's group 0 is b in the checkpoint and nothing here");
  SGD groups(two_groups(after, SGDOptions(1.0), SGDOptions(1.0)), SGDOptions(1.0));
  EXPECT_EQ(error_of(groups, saved.reader()), "the checkpoint's optimizer has 1 parameter groups, this one has 2");
  SGD unnamed({torch::ones({1}, torch::requires_grad())}, SGDOptions(1.0));
  EXPECT_EQ(error_of(unnamed, saved.reader()),
            "a parameter of the optimizer's group 0 is not among the named parameters of the module");

  SGD loader({after[0].tensor, after[1].tensor}, SGDOptions(1.0));
  int reads = 0;
  const ReadTensor failing = [&](const NamedTensor& target) {
    if (++reads == 2) throw base::DataError("damaged");
    saved.reader()(target);
  };
  EXPECT_EQ(error_of(loader, failing), "damaged");
  EXPECT_EQ(static_cast<const SGDOptions&>(loader.param_groups()[0].options()).lr(), 1.0);
  EXPECT_TRUE(loader.state().empty());
}

TEST(OptimizerState, OtherOptimizersAreRefusedByName) {
  const auto parameters = scalars({"a"});
  torch::optim::RMSprop optimizer({parameters[0].tensor});
  try {
    optimizer_state(optimizer, parameters);
    FAIL();
  } catch (const base::UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("torch::optim::RMSprop"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trireme::checkpoint
