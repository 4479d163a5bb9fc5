#include "trireme/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace trireme::data {
namespace {

TEST(Prefetcher, keeps_no_more_ahead_than_asked) {
  std::atomic<int> made = 0;
  Prefetcher<int> prefetcher([&](const std::stop_token&) { return std::optional<int>(made++); }, 3);
  while (prefetcher.waiting() < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 3);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(prefetcher.next(), i);
  EXPECT_LE(made, 1003);
}

TEST(Prefetcher, ends_while_results_wait) {
  for (int i = 0; i < 200; ++i) {
    Prefetcher<int> prefetcher([](const std::stop_token&) { return std::optional<int>(1); }, 1);
    if (i % 2 == 0) continue;
    EXPECT_EQ(prefetcher.next(), 1);
  }
}

TEST(Prefetcher, an_error_comes_after_the_results_before_it) {
  int made = 0;
  Prefetcher<int> prefetcher(
      [&](const std::stop_token&) {
        if (made == 3) throw std::runtime_error("no more");
        return std::optional<int>(made++);
      },
      8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(prefetcher.next(), i);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
}

}  // namespace
}  // namespace trireme::data
