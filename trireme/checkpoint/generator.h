#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

// torch's default CPU generator, which everything that is not keyed by element draws from. Its lock is taken: a
// loader's thread may draw at the same time.
namespace trireme::checkpoint {

/// "generator/1": the name of a rank's generator state in a checkpoint.
std::string generator_name(int rank);

at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);
void seed_generator(uint64_t seed);

}  // namespace trireme::checkpoint
