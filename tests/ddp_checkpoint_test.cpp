// A plain loop in a user's words, through trireme/trireme.h: saved in the middle, it goes on bit for bit.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <filesystem>

#include "tests/harness/ranks.h"
#include "trireme/trireme.h"

namespace trireme {
namespace {

void train(torch::nn::Linear& model, torch::optim::Optimizer& optimizer, int rank, int first, int last) {
  for (int step = first; step < last; ++step) {
    const auto inputs = at::arange(12, at::kFloat).view({4, 3}) * (step + 1) / (rank + 2);
    optimizer.zero_grad();
    model->forward(inputs).square().mean().backward();
    optimizer.step();
  }
}

TEST(PlainLoop, goes_on_bit_for_bit_from_its_checkpoint) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "ddp_checkpoint";
  test::run_ranks(2, "shm", [&](World& world) {
    const auto options = torch::optim::AdamWOptions(0.01).weight_decay(0.1);
    torch::nn::Linear model(3, 2), resumed(3, 2);
    torch::optim::AdamW optimizer(model->parameters(), options);
    DistributedDataParallel ddp(*model, world.all());
    train(model, optimizer, world.rank(), 0, 3);
    save_checkpoint(folder, ddp, optimizer, {{"step", 3}});
    train(model, optimizer, world.rank(), 3, 5);

    torch::optim::AdamW resumed_optimizer(resumed->parameters(), torch::optim::AdamWOptions(1));
    DistributedDataParallel resumed_ddp(*resumed, world.all());
    const auto extra = load_checkpoint(folder, resumed_ddp, resumed_optimizer);
    EXPECT_EQ(extra["step"], 3);
    train(resumed, resumed_optimizer, world.rank(), 3, 5);
    EXPECT_TRUE(at::equal(resumed->weight, model->weight));
    EXPECT_TRUE(at::equal(resumed->bias, model->bias));
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
