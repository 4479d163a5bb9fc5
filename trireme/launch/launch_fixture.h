#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/launch/launch.h"

// For tests of launch(). Each test forks a process that calls launch() with small shell programs as ranks, and looks at
// what comes out.
namespace trireme::launch {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

inline std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit = 15s) {
  const auto end = Clock::now() + limit;
  while (Clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

inline bool alive(pid_t pid) {
  return kill(pid, 0) == 0;
}

class Launch : public testing::Test {
 protected:
  Launch() {
    static int count = 0;
    folder_ = fs::path(testing::TempDir()) / ("launch" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(folder_);
    unsetenv("OMP_NUM_THREADS");
  }
  ~Launch() override {
    if (launcher_ > 0) {
      kill(launcher_, SIGKILL);
      waitpid(launcher_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  static LaunchSpec shell(int ranks, const std::string& script) {
    LaunchSpec spec;
    spec.command = {"/bin/sh", "-c", script};
    spec.ranks = ranks;
    return spec;
  }

  /// Starts launch(spec) in a process of its own, whose output goes to files. `before` runs in it first.
  void start(
      const LaunchSpec& spec, const std::function<void()>& before = [] {}) {
    started_ = Clock::now();
    launcher_ = fork();
    if (launcher_ != 0) return;
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
    dup2(open((folder_ / "out").c_str(), flags, 0600), STDOUT_FILENO);
    dup2(open((folder_ / "err").c_str(), flags, 0600), STDERR_FILENO);
    // the shells write files where they stand
    if (chdir(folder_.c_str()) != 0) _exit(99);
    before();
    int code = 98;
    try {
      code = launch(spec);
    } catch (const base::Error& error) {
      dprintf(STDERR_FILENO, "error: %s\n", error.what());
      code = error.exit_code();
    }
    // whatever became our child must be gone and collected
    if (waitpid(-1, nullptr, WNOHANG) != -1) code = 97;
    _exit(code);
  }

  /// Waits for the launcher; its exit code, or 128 + n if signal n killed it; -1 where it does not end in time.
  int finish(std::chrono::seconds limit = 20s) {
    int status = 0;
    if (!eventually([&] { return waitpid(launcher_, &status, WNOHANG) == launcher_; }, limit)) return -1;
    seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
    launcher_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  int run(
      const LaunchSpec& spec, const std::function<void()>& before = [] {}) {
    start(spec, before);
    return finish();
  }

  std::string out() const { return content(folder_ / "out"); }
  std::string err() const { return content(folder_ / "err"); }
  std::string last_error() const {
    const auto lines = lines_of(err());
    return lines.empty() ? "" : lines.back();
  }

  /// Waits until files named `name`.<something> of `count` processes are there; the process ids in them.
  std::vector<pid_t> pids(const std::string& name, int count) {
    std::vector<pid_t> result;
    eventually([&] {
      result.clear();
      for (const auto& entry : fs::directory_iterator(folder_)) {
        if (entry.path().stem() != name) continue;
        std::ifstream file(entry.path());
        pid_t pid = 0;
        if (file >> pid) result.push_back(pid);
      }
      return static_cast<int>(result.size()) == count;
    });
    EXPECT_EQ(static_cast<int>(result.size()), count) << name;
    return result;
  }

  fs::path folder_;
  pid_t launcher_ = -1;
  Clock::time_point started_;
  double seconds_ = 0;
};

// a file that is there only when it is whole
inline const std::string write_pid = "echo $$ > t.$RANK && mv t.$RANK pid.$RANK; ";

}  // namespace trireme::launch
