#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace trireme::shm {

/// A value in shared memory that one process writes, one thread at a time, and any may read: a sequence lock. All zeros
/// is a valid state, T of zeros.
template <class T>
class Published {
 public:
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);

  void store(const T& value) {
    uint64_t words[kWords];
    std::memcpy(words, &value, sizeof value);
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }

  /// Empty where the writer was always in the midst, as one that was stopped or killed there.
  std::optional<T> load() const {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      uint64_t words[kWords];
      for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 != 0 || version_.load(std::memory_order_relaxed) != before) continue;
      T value;
      std::memcpy(&value, words, sizeof value);
      return value;
    }
    return {};
  }

 private:
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  std::atomic<uint64_t> version_;
  std::atomic<uint64_t> words_[kWords];
};

}  // namespace trireme::shm
