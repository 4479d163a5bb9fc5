#include "trireme/cli/guarded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "trireme/base/error.h"
#include "trireme/launch/launch.h"

namespace trireme::cli {
namespace {

struct Outcome {
  int code;
  std::string said;
};

Outcome run(const std::function<int()>& action) {
  testing::internal::CaptureStderr();
  const int code = guarded(action);
  return {code, testing::internal::GetCapturedStderr()};
}

template <class E>
Outcome run_throwing(const std::string& text) {
  return run([&]() -> int { throw E(text); });
}

TEST(Guarded, result_passes) {
  EXPECT_EQ(run([] { return 3; }).code, 3);
  EXPECT_EQ(run([] { return 0; }).said, "");
}

TEST(Guarded, errors_are_one_line_and_a_code) {
  const Outcome usage = run_throwing<base::UsageError>("no such flag");
  EXPECT_EQ(usage.code, 2);
  EXPECT_EQ(usage.said, "error: no such flag\n");
  EXPECT_EQ(run_throwing<base::DataError>("x").code, 1);
  const Outcome internal = run_throwing<base::InternalError>("internal error, please report it: a is false");
  EXPECT_EQ(internal.code, 1);
  EXPECT_NE(internal.said.find("please report it"), std::string::npos);
}

TEST(Guarded, many_violations_are_cut) {
  const Outcome outcome = run_throwing<base::ConfigError>("1\n2\n3\n4\n5\n6\n7\n8\n9");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(std::count(outcome.said.begin(), outcome.said.end(), '\n'), 7);
  EXPECT_NE(outcome.said.find("6\n"), std::string::npos);
  EXPECT_EQ(outcome.said.find("7\n"), std::string::npos);
  EXPECT_NE(outcome.said.find("and 3 more\n"), std::string::npos);
}

TEST(Guarded, no_stack_trace_of_foreign_exceptions) {
  const Outcome outcome = run_throwing<std::runtime_error>("bad\nException raised from x.cpp:1\nframe #0");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.said, "error: bad\n");
  EXPECT_EQ(run([]() -> int { throw std::bad_alloc(); }).said, "error: out of memory\n");
}

TEST(Guarded, a_lost_peer_is_told_to_our_launcher_only) {
  unsetenv(launch::launcher_variable);
  EXPECT_EQ(run_throwing<base::PeerLostError>("rank 1 is gone").code, 1);
  setenv(launch::launcher_variable, "1", 1);
  EXPECT_EQ(run_throwing<base::PeerLostError>("rank 1 is gone").code, launch::peer_lost_exit_code);
  unsetenv(launch::launcher_variable);
}

}  // namespace
}  // namespace trireme::cli
