#include "trireme/base/log.h"

#include <gtest/gtest.h>

namespace trireme::base {
namespace {

// The settings are the process's: each test puts them back.
class Log : public testing::Test {
 protected:
  void TearDown() override {
    set_log_level(Level::Info);
    set_log_prefix("");
  }
};

TEST_F(Log, lines_have_prefix_and_level) {
  testing::internal::CaptureStderr();
  set_log_prefix("[rank 1] ");
  log_info("a ", 1, " b ", 2.5);
  log_warning("two\nlines\n");
  log_error("wrong");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[rank 1] a 1 b 2.5\n[rank 1] warning: two\n[rank 1] warning: lines\n[rank 1] error: wrong\n");
}

TEST_F(Log, levels_below_are_dropped) {
  testing::internal::CaptureStderr();
  log_debug("hidden");
  set_log_level(Level::Warning);
  log_info("hidden");
  log_warning("shown");
  set_log_level(Level::Debug);
  log_debug("shown, too");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: shown\ndebug: shown, too\n");
  EXPECT_TRUE(log_enabled(Level::Debug));
}

TEST_F(Log, levels_by_name) {
  EXPECT_EQ(log_level_named("warning"), Level::Warning);
  try {
    log_level_named("warn1ng");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown log level 'warn1ng'; one of debug, info, warning, error; did you mean 'warning'?");
    EXPECT_EQ(error.exit_code(), 2);
  }
}

TEST(Error, check_shows_condition_and_values) {
  try {
    TRIREME_CHECK(1 + 1 == 3, "one ", 1);
    FAIL();
  } catch (const InternalError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("1 + 1 == 3 is false at "), std::string::npos) << what;
    EXPECT_TRUE(what.ends_with("; one 1")) << what;
  }
}

}  // namespace
}  // namespace trireme::base
