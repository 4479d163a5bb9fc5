// A model of one's own with the whole of Trireme around it: command line, launcher, checkpoints, proof. The program
// starts its ranks by executing itself, and its "model" block is checked like every other key.
//
// Run:
//   echo '{"model": {"width": 32}, "train_batch_size": 64, "training": {"steps": 60}, "steps_per_print": 0,
//          "optimizer": {"type": "Adam", "params": {"lr": 0.01}}}' > spiral.json
//   build/examples/04_own_model train spiral.json --ranks 2 --out run > log 2>&1 && tail -2 log | head -1
//   build/examples/04_own_model prove spiral.json --ranks 2
//   build/examples/04_own_model train spiral.json --set model.widht=3 2>&1 | grep -o "did you mean 'width'" || true
// Prints:
//   [rank 0] done: step 60  loss ...
//   [rank 0] equal: one process and 2 ranks, 64 items, ...
//   did you mean 'width'
#include "spiral.h"

int main(int argc, char** argv) {
  return trireme::run(
      argc, argv, [](const trireme::Config& config) { return spiral_job(config.model_block.value("width", 16)); },
      [](trireme::ModelReader& model) { model.get<int64_t>("width", 16, {.min = 1, .max = 4096}); });
}
