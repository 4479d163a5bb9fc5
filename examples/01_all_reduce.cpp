// Processes add their numbers, each its rank + 1.
//
// Run:
//   build/trireme launch -n 2 -- build/examples/01_all_reduce
// Prints:
//   [rank 0] rank 0 of 2: 1 becomes 3
//   [rank 1] rank 1 of 2: 2 becomes 3
#include <ATen/ATen.h>
#include <trireme/trireme.h>

#include <iostream>

int main() try {
  const auto world = trireme::World::from_environment();
  const auto number = at::full({1}, world.rank() + 1.0f);
  world.all().all_reduce(number).wait();
  std::cout << "rank " << world.rank() << " of " << world.size() << ": " << world.rank() + 1 << " becomes "
            << number.item<float>() << std::endl;
} catch (const trireme::Error& error) {
  std::cerr << "error: " << error.what() << std::endl;
  return error.exit_code();
}
