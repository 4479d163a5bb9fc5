#include "trireme/base/permutation.h"

#include "trireme/base/error.h"
#include "trireme/base/random.h"

namespace trireme::base {
namespace {

// the 64-bit finalizer of MurmurHash3
uint64_t mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  x ^= x >> 33;
  return x;
}

int half_bits_for(uint64_t n) {
  int half = 1;
  while (half < 32 && (uint64_t{1} << (2 * half)) < n) ++half;
  return half;
}

}  // namespace

Permutation::Permutation(uint64_t seed, uint64_t n) : n_(n), half_bits_(half_bits_for(n)) {
  for (size_t round = 0; round < keys_.size(); ++round) keys_[round] = hash(hash(seed, n), uint64_t{round});
}

uint64_t Permutation::operator()(uint64_t i) const {
  TRIREME_CHECK(i < n_, "index ", i, ", size ", n_);
  // ends, since the cycle through i contains i itself; the domain is below 4 n, so about 4 steps at most on average
  do {
    i = encrypt(i);
  } while (i >= n_);
  return i;
}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (const uint64_t key : keys_) {
    const uint64_t next = left ^ (mixed(right + key) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace trireme::base
