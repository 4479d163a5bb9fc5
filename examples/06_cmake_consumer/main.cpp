// A program of another project: each rank adds its number.
//   trireme launch -n 2 -- consumer/consumer      prints "sum 3" for each of the two
#include <ATen/ATen.h>
#include <trireme/trireme.h>

#include <iostream>

int main() {
  const auto world = trireme::World::from_environment();
  const at::Tensor value = at::full({1}, world.rank() + 1.0f);
  world.all().all_reduce(value).wait();
  std::cout << "sum " << value.item<float>() << std::endl;
}
