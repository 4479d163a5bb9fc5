#include "trireme/checkpoint/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace trireme::checkpoint {

std::string generator_name(int rank) {
  return "generator/" + std::to_string(rank);
}

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

void seed_generator(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace trireme::checkpoint
