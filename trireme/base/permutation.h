#pragma once

#include <array>
#include <cstdint>

namespace trireme::base {

/// A pseudo-random permutation of 0 … n-1 in constant memory: a Feistel network on the next power of four, walked along
/// its cycle until it falls below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Constant
/// expected time.
class Permutation {
 public:
  Permutation(uint64_t seed, uint64_t n);

  uint64_t size() const { return n_; }
  /// Requires i < size(); InternalError otherwise.
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t encrypt(uint64_t value) const;

  uint64_t n_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace trireme::base
