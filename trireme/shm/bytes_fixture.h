#pragma once

#include <cstddef>

namespace trireme::shm {

/// For tests: where the elements of a vector lie.
inline std::byte* bytes_of(auto& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

}  // namespace trireme::shm
