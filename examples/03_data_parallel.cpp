// The loop of 02_one_process on two processes: three more lines, each rank takes its half of every batch. The losses
// are those of 02.
//
// Run:
//   build/trireme launch -n 2 -- build/examples/03_data_parallel > lines
//   build/examples/02_one_process > alone
//   grep -o 'step.*' lines | diff - alone && cat lines
// Prints:
//   [rank 0] step 0 loss 7.37172
//   [rank 0] step 20 loss ...
//   [rank 0] step 40 loss ...
#include <trireme/trireme.h>

#include <iostream>

#include "regression.h"

int main() try {
  auto world = trireme::World::from_environment();  // 1
  auto net = make_net();
  trireme::DistributedDataParallel ddp(*net, world.all());  // 2
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  for (int step = 0; step <= 40; ++step) {
    const auto batch = batch_of(step);
    const auto x = batch.x.chunk(world.size())[world.rank()], y = batch.y.chunk(world.size())[world.rank()];  // 3
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    const auto mean = loss.detach().clone();
    world.all().all_reduce(mean, trireme::ReduceOp::Average).wait();
    if (step % 20 == 0 && world.rank() == 0)
      std::cout << "step " << step << " loss " << mean.item<float>() << std::endl;
  }
} catch (const trireme::Error& error) {
  std::cerr << "error: " << error.what() << std::endl;
  return error.exit_code();
}
