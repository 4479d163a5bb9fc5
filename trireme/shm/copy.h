#pragma once

#include <cstddef>

namespace trireme::shm {

/// Copies between buffers that do not overlap; nothing where they are the same. `streaming` stores past the caches,
/// which saves reading the destination first and pays once it is larger than a core's share of the cache.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, bool streaming = false);

/// Fetches the lines of memory that this core is about to write from the cores that have them, without waiting.
inline void prefetch_for_write(const void* memory, size_t bytes) {
#if defined(__x86_64__)
  for (size_t at = 0; at < bytes; at += 64) asm volatile("prefetchw %0" ::"m"(static_cast<const char*>(memory)[at]));
#else
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(memory) + at, 1);
#endif
}

}  // namespace trireme::shm
