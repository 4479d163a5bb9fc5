#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>

#include "trireme/checkpoint/folders.h"
#include "trireme/checkpoint/load.h"
#include "trireme/checkpoint/save.h"
#include "trireme/checkpoint/test_ranks.h"

// A saver is killed before every single system call that it makes.
namespace trireme::checkpoint {
namespace {

void save_alone(const std::string& run_folder, int64_t step, float first, int64_t keep) {
  std::vector<float> a, b;
  save({run_folder,
        step,
        {test::floats("a", {50, 3}, a, first), test::floats("b", {7}, b, first)},
        {{"first", first}},
        keep,
        "run"},
       0, [](const std::string& text) { return std::vector<std::string>{text}; });
}

/// Starts body in a child and kills it before system call number `call`. True if it ended by itself before that;
/// nothing if tracing is not permitted.
std::optional<bool> ends_before_call(int call, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(99);
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 99) return std::nullopt;
  // every call stops twice, before and after
  for (int stop = 0; stop <= 2 * call; ++stop) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return true;
    }
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return false;
}

/// Steps 1 (and 2) are there; `body` saves on top and is killed everywhere. Afterwards the newest checkpoint is
/// `old_step` or `new_step`, whole, and the next save cleans up.
void kill_everywhere(int64_t old_step, int64_t new_step, int64_t keep) {
  bool seen_old = false, seen_new = false;
  for (int call = 0;; ++call) {
    const test::Folder run;
    for (int64_t step = 1; step <= old_step; ++step) save_alone(run.path(), step, static_cast<float>(step), 0);
    const auto ended = ends_before_call(call, [&] { save_alone(run.path(), new_step, 1000, keep); });
    if (!ended) GTEST_SKIP() << "tracing a child is not permitted here";

    const auto folder = newest(run.path());
    ASSERT_TRUE(folder) << "killed before call " << call;
    const Checkpoint checkpoint(*folder);
    ASSERT_NO_THROW(checkpoint.verify()) << "killed before call " << call;
    const float first = checkpoint.state()["first"].get<float>();
    const bool is_new = first == 1000;
    ASSERT_TRUE(is_new ? checkpoint.step() == new_step : checkpoint.step() == old_step && first == old_step);
    for (const int64_t step : steps(run.path())) ASSERT_NO_THROW(Checkpoint(step_folder(run.path(), step)).verify());
    (is_new ? seen_new : seen_old) = true;

    if (call % 8 == 0 || *ended) {
      save_alone(run.path(), new_step + 1, 0, 1);
      EXPECT_EQ(steps(run.path()), std::vector<int64_t>{new_step + 1});
      EXPECT_FALSE(std::filesystem::exists(run / "checkpoints.partial"));
    }
    if (*ended) break;
  }
  EXPECT_TRUE(seen_old);
  EXPECT_TRUE(seen_new);
}

TEST(Kill, ANewStepLeavesTheOldOnesWhole) {
  kill_everywhere(2, 3, 1);
}

TEST(Kill, AStepThatIsReplacedIsTheOldOrTheNew) {
  kill_everywhere(1, 1, 1);
}

}  // namespace
}  // namespace trireme::checkpoint
