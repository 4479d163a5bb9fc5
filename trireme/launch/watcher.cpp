#include "trireme/launch/watcher.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/launch/process_tree.h"
#include "trireme/shm/status_board.h"

namespace trireme::launch {
namespace {

using namespace std::chrono_literals;

constexpr auto same_keystroke = 1s;  // a terminal and `timeout` deliver one Ctrl-C more than once
constexpr auto wait_for_cause = 2s;  // after an echo, for the rank that failed to be seen
constexpr auto killing_limit = 3s;   // a process that SIGKILL does not end waits in the kernel
constexpr auto drain_limit = 500ms;  // for a pipe that is still open although all are dead
constexpr auto look_again = 20ms;    // nothing tells us when a grandchild ends

}  // namespace

Watcher::Watcher(std::vector<RunningRank>& ranks, SignalPipe& signals, OutputQueue& output, OutputQueue& errors,
                 shm::StatusBoard* board, std::vector<pid_t> foreign, std::chrono::nanoseconds grace)
    : ranks_(ranks),
      signals_(signals),
      output_(output),
      errors_(errors),
      board_(board),
      foreign_(std::move(foreign)),
      grace_(grace) {}

int Watcher::run() {
  watch();
  drain();
  const std::string line = last_line();
  if (!line.empty()) errors_.end() += line + "\n";
  drain();
  return result();
}

void Watcher::end_all() {
  begin_ending();
  watch();
  drain();
}

void Watcher::watch() {
  while (true) {
    reap_ranks();
    reap_orphans();
    on_time();
    if (all_ended()) {
      const std::vector<pid_t> left = left_over();
      if (left.empty() || left == immortal_) {
        reap_orphans();
        return;
      }
      if (phase_ == Phase::Running) begin_ending();
    }
    wait_for_events();
    for (int signal : signals_.take()) on_signal(signal);
    if (output_.broken() && stop_signal_ == 0) {
      if (output_.error() != EPIPE)
        errors_.end() += base::text_of("error: cannot write to stdout: ", std::strerror(output_.error()), "\n");
      on_signal(SIGPIPE);
    }
  }
}

void Watcher::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.fd(), POLLIN, 0}};
  for (const RunningRank& rank : ranks_) {
    if (rank.output) rank.output->add_to(polled);
  }
  const size_t first_queue = polled.size();
  if (!output_.empty()) polled.push_back({output_.fd(), POLLOUT, 0});
  if (&errors_ != &output_ && !errors_.empty()) polled.push_back({errors_.fd(), POLLOUT, 0});
  int timeout = -1;
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
  }
  if (phase_ != Phase::Running) {
    const int again = static_cast<int>(std::chrono::milliseconds(look_again).count());
    timeout = timeout < 0 ? again : std::min(timeout, again);
  }
  if (poll(polled.data(), polled.size(), timeout) <= 0) return;
  for (size_t i = 1; i < first_queue; ++i) {
    if (polled[i].revents == 0) continue;
    for (RunningRank& rank : ranks_) {
      if (rank.output) rank.output->read_from(polled[i].fd);
    }
  }
  for (size_t i = first_queue; i < polled.size(); ++i) {
    if (polled[i].revents != 0) (polled[i].fd == output_.fd() ? output_ : errors_).write_some();
  }
}

void Watcher::reap_ranks() {
  std::vector<RankEnd> ends;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    int status = 0;
    if (ranks_[i].ended || waitpid(ranks_[i].pid, &status, WNOHANG) != ranks_[i].pid) continue;
    ranks_[i].ended = true;
    if (board_) board_->set_ended(static_cast<int>(i), status);
    ends.push_back({static_cast<int>(i), status});
  }
  if (!ends.empty()) judge(ends);
}

// Orphans come to us as their subreaper, and we leave no zombie.
void Watcher::reap_orphans() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const auto is_it = [&](pid_t pid) { return pid == info.si_pid; };
    const bool is_rank =
        std::any_of(ranks_.begin(), ranks_.end(), [&](const RunningRank& r) { return !r.ended && is_it(r.pid); });
    if (is_rank || std::any_of(foreign_.begin(), foreign_.end(), is_it)) break;
    waitpid(info.si_pid, nullptr, WNOHANG);
    info = {};
  }
}

void Watcher::judge(const std::vector<RankEnd>& ends) {
  const std::optional<RankEnd> cause = first_cause(ends);
  if (!cause || phase_ != Phase::Running) return;
  if (stop_signal_ != 0) {
    const bool asked_for = std::all_of(ends.begin(), ends.end(), [&](const RankEnd& end) {
      return std::any_of(forwarded_.begin(), forwarded_.end(), [&](int signal) { return answers(end, signal); });
    });
    if (!asked_for) cause_ = cause;
    // ranks that say goodbye by themselves may take their time (a checkpoint); one that just died of the signal, or of
    // something else, leaves the others waiting for it
    if (!asked_for || WIFSIGNALED(cause->status)) begin_ending();
    return;
  }
  if (is_echo(*cause)) {
    if (!cause_) deadline_ = Clock::now() + wait_for_cause;
    if (!cause_) cause_ = cause;
    return;
  }
  cause_ = cause;
  begin_ending();
}

void Watcher::on_signal(int signal) {
  if (signal == SIGCHLD) return;
  const auto now = Clock::now();
  if (phase_ != Phase::Running) {
    // the failure or the first signal is being dealt with; who asks again does not want to wait
    if (stop_signal_ == 0 || now - stopped_at_ > same_keystroke) begin_killing();
    if (stop_signal_ == 0) stop_signal_ = signal;
    return;
  }
  if (stop_signal_ == 0) {
    stop_signal_ = signal;
    stopped_at_ = now;
  } else if (forwarded_.count(signal)) {
    if (now - stopped_at_ <= same_keystroke) return;
    at_once_ = true;
    begin_killing();
    return;
  }
  forwarded_.insert(signal);
  const int sent = signal == SIGPIPE ? SIGTERM : signal;
  for (const RunningRank& rank : ranks_) {
    if (!rank.ended) kill(-rank.pid, sent);
  }
}

void Watcher::on_time() {
  const bool over = deadline_ && Clock::now() > *deadline_;
  switch (phase_) {
    case Phase::Running:
      if (over) begin_ending();
      break;
    case Phase::Ending:
      if (over) {
        begin_killing();
      } else {
        ask_to_end();
      }
      break;
    case Phase::Killing: {
      const std::vector<pid_t> left = left_over();
      for (pid_t pid : left) kill(pid, SIGKILL);
      if (!over) break;
      immortal_ = left;
      for (RunningRank& rank : ranks_) rank.ended = true;
      break;
    }
  }
}

void Watcher::begin_ending() {
  if (phase_ != Phase::Running) return;
  phase_ = Phase::Ending;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace_);
  ask_to_end();
}

// SIGTERM, once to each; a process may have been started while we looked, so this is repeated.
void Watcher::ask_to_end() {
  for (pid_t pid : left_over()) {
    if (!asked_.insert(pid).second) continue;
    kill(pid, SIGTERM);
    kill(pid, SIGCONT);  // a stopped process handles nothing
  }
}

void Watcher::begin_killing() {
  if (phase_ == Phase::Killing) return;
  phase_ = Phase::Killing;
  deadline_ = Clock::now() + killing_limit;
  on_time();
}

// Takes what is left in the pipes and writes the queues out. Waits for a slow reader, but not against a signal.
void Watcher::drain() {
  const auto any_open = [&] {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const RunningRank& r) { return r.output && r.output->open(); });
  };
  auto limit = Clock::now() + drain_limit;
  while (any_open() && Clock::now() < limit && !interrupted()) {
    if (output_.full() || errors_.full()) limit = Clock::now() + drain_limit;
    deadline_ = limit;
    wait_for_events();
  }
  deadline_.reset();
  for (RunningRank& rank : ranks_) {
    if (rank.output) rank.output->finish();
    rank.output.reset();
  }
  while ((!output_.empty() || !errors_.empty()) && !interrupted()) wait_for_events();
}

bool Watcher::interrupted() {
  for (int signal : signals_.take()) {
    if (signal != SIGCHLD && (stop_signal_ == 0 || Clock::now() - stopped_at_ > same_keystroke)) gave_up_output_ = true;
  }
  return gave_up_output_;
}

bool Watcher::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RunningRank& rank) { return rank.ended; });
}

std::vector<pid_t> Watcher::left_over() const {
  return descendants(getpid(), foreign_);
}

int Watcher::result() const {
  if (stop_signal_ != 0 && !(cause_ && forwarded_.empty())) return 128 + stop_signal_;
  return cause_ ? exit_code(*cause_) : 0;
}

std::string Watcher::last_line() const {
  std::string line;
  if (!immortal_.empty()) line = base::text_of("process ", immortal_.front(), " did not end when killed; ");
  if (cause_) {
    // a lone rank has said itself what was wrong before it exited
    if (ranks_.size() == 1 && line.empty() && !WIFSIGNALED(cause_->status)) return "";
    return line + cause_text() + (ranks_.size() > 1 ? "; ended the other ranks" : "");
  }
  if (at_once_) return line + "killed all ranks at the second signal";
  if (stop_signal_ == SIGPIPE && output_.error() != EPIPE) {
    return line + base::text_of("cannot write the ranks' output: ", std::strerror(output_.error()), "; ended them");
  }
  return line;
}

// "rank 1 was killed by signal 9 (SIGKILL) in step 12, forward for 2.1 s", "rank 0 exited with code 1: its error"
std::string Watcher::cause_text() const {
  std::string text = describe(*cause_);
  if (!board_) return text;
  const shm::RankStatus status = board_->read(cause_->rank);
  if (!status.failure.empty()) return text + ": " + status.failure;
  const std::string activity = shm::activity_text(status);
  if (!activity.empty()) text += " in " + activity;
  if (!status.activity.operation.empty()) text += ", " + shm::waiting_text(status.activity);
  return text;
}

}  // namespace trireme::launch
