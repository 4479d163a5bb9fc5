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

// A saver is killed around every single system call that it makes.
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

/// Runs body in a child that stops before and after each system call; `go_on` is asked at each stop with its number,
/// and the child is killed there if it says no. The number of stops; nothing if tracing is not permitted.
std::optional<int> traced(const std::function<void()>& body, const std::function<bool(int)>& go_on) {
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
  for (int stop = 0;; ++stop) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return stop;
    }
    if (go_on(stop)) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return stop;
  }
}

/// What a saver that saves `step` over the steps 1 to `old_step` leaves behind, wherever it is killed.
class KilledSave {
 public:
  KilledSave(int64_t old_step, int64_t step, int64_t keep) : old_step_(old_step), step_(step), keep_(keep) {
    for (int64_t old = 1; old <= old_step; ++old) save_alone(run_.path(), old, static_cast<float>(old), 0);
  }

  std::optional<int> run(const std::function<bool(int)>& go_on) {
    return traced([&] { save_alone(run_.path(), step_, 1000, keep_); }, go_on);
  }

  /// Every checkpoint is whole, and the newest is the old one or the new one. True for the new one.
  bool check(int stop) const {
    const auto folder = newest(run_.path());
    if (!folder) {
      ADD_FAILURE() << "stop " << stop << ": nothing is left";
      return false;
    }
    for (const int64_t step : steps(run_.path()))
      EXPECT_NO_THROW(Checkpoint(step_folder(run_.path(), step)).verify()) << "stop " << stop;
    const Checkpoint checkpoint(*folder);
    const auto first = checkpoint.state()["first"].get<int64_t>();
    EXPECT_TRUE(first == 1000 ? checkpoint.step() == step_ : checkpoint.step() == old_step_ && first == old_step_);
    return first == 1000;
  }

  void next_save_cleans_up() const {
    save_alone(run_.path(), step_ + 1, 0, 1);
    EXPECT_EQ(steps(run_.path()), std::vector<int64_t>{step_ + 1});
    EXPECT_FALSE(std::filesystem::exists(run_ / "checkpoints.partial"));
  }

 private:
  test::Folder run_;
  int64_t old_step_, step_, keep_;
};

void kill_everywhere(int64_t old_step, int64_t step, int64_t keep) {
  // a kill leaves the files as they are at that stop, so looking at each stop is a kill at each; some are real
  KilledSave watched(old_step, step, keep);
  bool seen_old = false, seen_new = false;
  const auto stops = watched.run([&](int stop) {
    (watched.check(stop) ? seen_new : seen_old) = true;
    return true;
  });
  if (!stops) GTEST_SKIP() << "tracing a child is not permitted here";
  EXPECT_TRUE(seen_old);
  EXPECT_TRUE(seen_new);

  constexpr int kills = 12;
  for (int i = 0; i < kills; ++i) {
    KilledSave killed(old_step, step, keep);
    const int last = *stops * (i + 1) / (kills + 1);
    killed.run([&](int stop) { return stop < last; });
    killed.check(last);
    killed.next_save_cleans_up();
  }
}

TEST(Kill, ANewStepLeavesTheOldOnesWhole) {
  kill_everywhere(2, 3, 1);
}

TEST(Kill, AStepThatIsReplacedIsTheOldOrTheNew) {
  kill_everywhere(1, 1, 1);
}

}  // namespace
}  // namespace trireme::checkpoint
