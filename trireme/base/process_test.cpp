#include "trireme/base/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace trireme::base {
namespace {

TEST(Process, StoppedEndedAndGone) {
  ASSERT_TRUE(process_stat(0));
  EXPECT_EQ(process_stat(0)->parent, getppid());
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_EQ(process_stat(child)->parent, getpid());
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
  EXPECT_TRUE(process_stat(child)->stopped());
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, child, &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(process_stat(child)->ended());
  EXPECT_EQ(end_text(process_stat(child)->end), "was killed by signal 9 (SIGKILL)");
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_stat(child));
}

TEST(Process, NamesOfAnyKind) {
  char before[16] = {};
  prctl(PR_GET_NAME, before);
  for (const char* name : {"a b) Z 1", "a\nb) Z 1"}) {
    prctl(PR_SET_NAME, name);
    const auto stat = process_stat(0);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->parent, getppid());
    EXPECT_FALSE(stat->ended());
  }
  prctl(PR_SET_NAME, before);
}

TEST(Process, EndsInWords) {
  EXPECT_EQ(end_text(3 << 8), "exited with code 3");
  EXPECT_EQ(signal_text(SIGUSR1), "signal 10 (SIGUSR1)");
  EXPECT_EQ(signal_text(63), "signal 63");
}

}  // namespace
}  // namespace trireme::base
