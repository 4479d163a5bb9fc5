// Two processes add their numbers.
//
// Run:
//   build/trireme launch -n 2 -- build/examples/01_all_reduce
// Prints:
//   [rank 0] rank 0 of 2: 1 + 2 = 3
//   [rank 1] rank 1 of 2: 1 + 2 = 3
#include <ATen/ATen.h>
#include <trireme/trireme.h>

#include <iostream>

int main() {
  const auto world = trireme::World::from_environment();
  const auto number = at::full({1}, world.rank() + 1.0f);
  world.all().all_reduce(number).wait();
  std::cout << "rank " << world.rank() << " of " << world.size() << ": 1 + 2 = " << number.item<float>() << std::endl;
}
