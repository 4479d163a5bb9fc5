#pragma once

#include <cstddef>

namespace trireme::shm {

/// Copies between buffers that do not overlap; nothing where they are the same. `streaming` stores past the caches,
/// which saves reading the destination first and pays once it is larger than a core's share of the cache.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, bool streaming = false);

}  // namespace trireme::shm
