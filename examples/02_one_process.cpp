// A plain libtorch loop in one process. 03_data_parallel is the same loop on two.
//
// Run:
//   build/examples/02_one_process
// Prints:
//   step 0 loss 7.37172
//   step 20 loss ...
//   step 40 loss ...
#include <iostream>

#include "regression.h"

int main() {
  auto net = make_net();
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  for (int step = 0; step <= 40; ++step) {
    const auto batch = batch_of(step);
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(net->forward(batch.x), batch.y);
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) std::cout << "step " << step << " loss " << loss.item<float>() << std::endl;
  }
}
