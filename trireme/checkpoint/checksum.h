#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

// XXH3 with 64 bits and seed 0, the checksum of everything in a checkpoint.
namespace trireme::checkpoint {

/// Of bytes that come in parts.
class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

inline uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// 16 lower-case hexadecimal digits.
inline std::string checksum_text(uint64_t checksum) {
  std::string digits(16, '0');
  for (size_t i = digits.size(); i > 0; --i, checksum >>= 4) digits[i - 1] = "0123456789abcdef"[checksum & 15];
  return digits;
}

}  // namespace trireme::checkpoint
