#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/launch/output_queue.h"
#include "trireme/launch/rank_end.h"
#include "trireme/launch/rank_output.h"
#include "trireme/launch/signals.h"

namespace trireme::shm {
class StatusBoard;
}

namespace trireme::launch {

struct RunningRank {
  pid_t pid = -1;
  std::unique_ptr<RankOutput> output;  ///< nullptr: the rank writes to the launcher's own stdout and stderr
  bool ended = false;
};

/// Watches started ranks until they and all that they started have ended: passes output on, forwards signals, ends the
/// rest after a failure. The rules are in launch.h.
class Watcher {
 public:
  /// `foreign`: children that the process had before, which are none of ours. `board` may be null. What is referred to
  /// must live longer.
  Watcher(std::vector<RunningRank>& ranks, SignalPipe& signals, OutputQueue& output, OutputQueue& errors,
          shm::StatusBoard* board, std::vector<pid_t> foreign, std::chrono::nanoseconds grace);

  /// Returns the launcher's exit code; the last line is in `errors` and written.
  int run();

  /// Ends all that was started so far, as after a failure; for a start that failed half way.
  void end_all();

 private:
  using Clock = std::chrono::steady_clock;
  // Running -> Ending (SIGTERM sent) -> Killing (SIGKILL until nothing is left)
  enum class Phase { Running, Ending, Killing };

  void watch();
  void wait_for_events();
  void reap_ranks();
  void reap_orphans();
  void judge(const std::vector<RankEnd>& ends);
  void on_signal(int signal);
  void on_time();
  void begin_ending();
  void ask_to_end();
  void begin_killing();
  void drain();
  bool interrupted();
  bool all_ended() const;
  std::vector<pid_t> left_over() const;
  int result() const;
  std::string last_line() const;
  std::string cause_text() const;

  std::vector<RunningRank>& ranks_;
  SignalPipe& signals_;
  OutputQueue& output_;
  OutputQueue& errors_;
  shm::StatusBoard* board_;
  std::vector<pid_t> foreign_;
  std::chrono::nanoseconds grace_;

  Phase phase_ = Phase::Running;
  std::optional<Clock::time_point> deadline_;  // of the phase, or of waiting for an echo's cause
  std::optional<RankEnd> cause_;
  int stop_signal_ = 0;  // the first that asked us to stop; 0: none
  Clock::time_point stopped_at_{};
  std::set<int> forwarded_;
  std::set<pid_t> asked_;        // got SIGTERM from us
  bool at_once_ = false;         // a second signal came
  bool gave_up_output_ = false;  // a signal came while only output was left to write
  std::vector<pid_t> immortal_;
};

}  // namespace trireme::launch
