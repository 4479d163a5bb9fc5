#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "trireme/shm/published.h"

// The status board as it lies in shared memory: a BoardLayout, then a StatusRow a rank. Times are CLOCK_MONOTONIC's
// nanoseconds; texts end with a 0.
namespace trireme::shm {

inline int64_t monotonic_nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

struct PhaseRecord {
  std::array<char, 31> name{};
  bool may_be_long = false;
  int64_t since = 0;
};

struct WaitRecord {
  std::array<char, 24> operation{};  // empty: it waits for nothing
  std::array<char, 32> group{};
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  int64_t since = 0;
};

/// Written by the rank.
struct ActivityRecord {
  int64_t step = 0;
  PhaseRecord phase;
  WaitRecord wait;
  std::array<char, 48> barrier{};
};

struct FailureRecord {
  std::array<char, 1024> text{};
};

/// Written by the rank or by who started it, the same by both.
struct ProcessRecord {
  int64_t process = 0;
  uint64_t start_ticks = 0;
};

struct alignas(128) StatusRow {
  Published<ActivityRecord> activity;
  Published<FailureRecord> failure;
  Published<ProcessRecord> process;
  std::atomic<int64_t> end;  // 1 + waitpid()'s, 0: not known; written by who started the rank
};

struct alignas(128) BoardLayout {
  uint64_t magic;
  int32_t ranks;
  std::atomic<bool> watched;

  StatusRow* rows() { return reinterpret_cast<StatusRow*>(this + 1); }
  static size_t bytes(int ranks) { return sizeof(BoardLayout) + static_cast<size_t>(ranks) * sizeof(StatusRow); }
};

constexpr uint64_t kBoardMagic = 0x3144524f42727454;

}  // namespace trireme::shm
