// The Trainer in a loop of one's own: the loop decides when to step, evaluate, save.
//
// Run:
//   build/trireme launch -n 2 -- build/examples/05_own_loop
// Prints:
//   [rank 0] step 1 loss 0.704...
//   [rank 0] step 80 validation loss 0...
#include <iostream>

#include "spiral.h"

int main() try {
  const auto world = trireme::World::from_environment();
  const auto config = trireme::config_from_json(
      {{"train_batch_size", 64}, {"optimizer", {{"type", "Adam"}, {"params", {{"lr", 0.01}}}}}}, world.size(),
      trireme::own_model());
  trireme::Trainer trainer(spiral_job(32), config, world);
  for (int step = 1; step <= 80; ++step) {
    const auto result = trainer.step(trainer.next_batches());
    if (step == 1 && world.rank() == 0) std::cout << "step 1 loss " << result.loss << std::endl;
  }
  const auto evaluation = trainer.evaluate();
  if (world.rank() == 0)
    std::cout << "step " << trainer.updates() << " validation loss " << evaluation.loss() << std::endl;
} catch (const trireme::Error& error) {
  std::cerr << "error: " << error.what() << std::endl;
  return error.exit_code();
}
