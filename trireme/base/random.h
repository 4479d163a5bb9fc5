#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// Counter-based random numbers: the value at an index depends on nothing but (seed, name, index), so every rank can
// make its own part of a tensor and all layouts start equal. Only IEEE basic operations are used: the bits do not
// depend on the machine, the C library or the instruction set.
namespace trireme::base {

/// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); equals Random123.
std::array<uint32_t, 4> philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

/// 64 well-mixed bits; the same on every machine and in every version of Trireme.
uint64_t hash(uint64_t seed, std::string_view text);
uint64_t hash(uint64_t seed, uint64_t value);

/// A number in [0, 1) with 53 random bits: element `index` of the stream `key`.
double uniform(uint64_t key, uint64_t index);

/// Elements [first_index, first_index + count) of the stream (seed, name) into `out`: normal by Box and Muller.
void fill_normal(float* out, int64_t first_index, int64_t count, uint64_t seed, std::string_view name, double mean = 0,
                 double standard_deviation = 1);

/// The same for the uniform distribution on [low, high).
void fill_uniform(float* out, int64_t first_index, int64_t count, uint64_t seed, std::string_view name, double low = 0,
                  double high = 1);

}  // namespace trireme::base
