#include "trireme/checkpoint/plain_loop.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/load.h"
#include "trireme/checkpoint/test_ranks.h"
#include "trireme/comm/objects.h"

namespace trireme::checkpoint {
namespace {

struct Net : torch::nn::Module {
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear empty{nullptr};

  Net() {
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 2, 2).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(2));
    empty = register_module("empty", torch::nn::Linear(torch::nn::LinearOptions(4, 0).bias(false)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(convolution(x)).pow(2).sum(); }
};

void train(Net& net, torch::optim::Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    net.forward(torch::linspace(-1, 1, 54).view({2, 3, 3, 3})).backward();
    optimizer.step();
  }
}

bool equal(torch::nn::Module& a, torch::nn::Module& b) {
  const auto ours = a.named_parameters(), theirs = b.named_parameters();
  for (const auto& item : ours)
    if (!at::equal(item.value(), theirs[item.key()])) return false;
  const auto our_buffers = a.named_buffers(), their_buffers = b.named_buffers();
  for (const auto& item : our_buffers)
    if (!at::equal(item.value(), their_buffers[item.key()])) return false;
  return true;
}

/// Saves on `savers` ranks and loads on `loaders`; the run goes on bit for bit.
void round_trip(int savers, int loaders) {
  const test::Folder folder;
  const std::string path = folder / "last/";
  torch::manual_seed(1);
  Net net;
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  train(net, optimizer, 3);
  trireme::test::run_ranks(savers, "gloo", [&](comm::World& world) {
    save_checkpoint(path, net, optimizer, world.all(), {{"epoch", 4}});
    // the same name again
    save_checkpoint(path, net, optimizer, world.all(), {{"epoch", 5}});
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "last.partial"));

  std::vector<std::unique_ptr<Net>> nets;
  std::vector<std::unique_ptr<torch::optim::AdamW>> optimizers;
  for (int rank = 0; rank < loaders; ++rank) {
    nets.push_back(std::make_unique<Net>());
    optimizers.push_back(
        std::make_unique<torch::optim::AdamW>(nets.back()->parameters(), torch::optim::AdamWOptions(1)));
  }
  trireme::test::run_ranks(loaders, "gloo", [&](comm::World& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const base::Json extra = load_checkpoint(path, *nets[rank], *optimizers[rank], world.all());
    EXPECT_EQ(extra["epoch"], 5);
  });
  train(net, optimizer, 2);
  for (size_t rank = 0; rank < nets.size(); ++rank) {
    train(*nets[rank], *optimizers[rank], 2);
    EXPECT_TRUE(equal(net, *nets[rank]));
  }
}

TEST(PlainLoop, OneRank) {
  round_trip(1, 1);
}
TEST(PlainLoop, TwoRanksToThree) {
  round_trip(2, 3);
}
TEST(PlainLoop, ThreeRanksToOne) {
  round_trip(3, 1);
}

TEST(CheckpointCases, B090_channels_last_keeps_its_values) {
  const test::Folder folder;
  const at::Tensor expected = torch::arange(24, torch::kFloat).view({2, 3, 2, 2});
  trireme::test::run_ranks(2, "gloo", [&](comm::World& world) {
    Net net;
    const torch::NoGradGuard guard;
    net.convolution->weight.copy_(expected);
    if (world.rank() == 1)
      net.convolution->weight.set_data(net.convolution->weight.contiguous(at::MemoryFormat::ChannelsLast));
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    save_checkpoint(folder / "c", net, optimizer, world.all());
    net.convolution->weight.zero_();
    load_checkpoint(folder / "c", net, optimizer, world.all());
    EXPECT_TRUE(at::equal(net.convolution->weight, expected));
    EXPECT_EQ(net.convolution->weight.is_contiguous(), world.rank() == 0);
  });
}

TEST(PlainLoop, AnotherModuleIsRefusedAndUnchanged) {
  const test::Folder folder;
  trireme::test::run_ranks(1, "gloo", [&](comm::World& world) {
    Net net;
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
    save_checkpoint(folder / "c", net, optimizer, world.all());
    const auto error_of = [&](torch::nn::Module& module, torch::optim::Optimizer& its_optimizer) -> std::string {
      try {
        load_checkpoint(folder / "c", module, its_optimizer, world.all());
      } catch (const base::DataError& error) {
        return error.what();
      }
      return "";
    };
    struct Larger : Net {
      Larger() { register_module("more", torch::nn::Linear(1, 1)); }
    } larger;
    torch::optim::SGD larger_optimizer(larger.parameters(), 0.5);
    EXPECT_NE(error_of(larger, larger_optimizer).find("holds no tensor 'model/more.weight'"), std::string::npos);
    torch::nn::Linear smaller(2, 2);
    torch::optim::SGD smaller_optimizer(smaller->parameters(), 0.5);
    EXPECT_NE(error_of(*smaller, smaller_optimizer).find("the module has no 'model/"), std::string::npos);
    Net same;
    torch::optim::AdamW other_optimizer(same.parameters());
    const at::Tensor before = same.convolution->weight.detach().clone();
    EXPECT_EQ(error_of(same, other_optimizer), "the checkpoint holds the state of SGD, not of AdamW");
    EXPECT_TRUE(at::equal(same.convolution->weight, before));
    EXPECT_EQ(error_of(net, optimizer), "");
  });
}

/// Two dropout masks as text.
std::string masks() {
  std::ostringstream text;
  for (int i = 0; i < 2; ++i) text << torch::dropout(torch::ones({64}), 0.5, true).sum() << torch::rand({4});
  return text.str();
}

TEST(CheckpointCases, B117_each_rank_gets_its_own_stream_back) {
  // processes: the default generator belongs to a process
  const test::Folder folder;
  const auto seen_by_all = [](const comm::Group& group) { return comm::all_gather_strings(group, masks()); };
  const auto all_differ = [](const std::vector<std::string>& texts) {
    return std::set<std::string>(texts.begin(), texts.end()).size() == texts.size();
  };
  const auto saved = trireme::test::run_processes(2, "gloo", [&](comm::World& world) {
    torch::manual_seed(static_cast<uint64_t>(10 + world.rank()));
    torch::nn::Linear module(1, 1);
    torch::optim::SGD optimizer(module->parameters(), 0.1);
    masks();
    save_checkpoint(folder / "c", *module, optimizer, world.all());
    const auto uninterrupted = seen_by_all(world.all());
    load_checkpoint(folder / "c", *module, optimizer, world.all());
    return uninterrupted == seen_by_all(world.all()) && all_differ(uninterrupted) ? 0 : 1;
  });
  EXPECT_EQ(saved, (std::vector<int>{0, 0}));
  const auto resumed = trireme::test::run_processes(4, "gloo", [&](comm::World& world) {
    torch::nn::Linear module(1, 1);
    torch::optim::SGD optimizer(module->parameters(), 0.1);
    load_checkpoint(folder / "c", *module, optimizer, world.all());
    return all_differ(seen_by_all(world.all())) ? 0 : 1;
  });
  EXPECT_EQ(resumed, (std::vector<int>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace trireme::checkpoint
