#pragma once

#include <csignal>
#include <vector>

namespace trireme::launch {

/// While it lives: SIGINT, SIGTERM, SIGHUP and SIGCHLD arrive as bytes of a pipe, SIGPIPE is ignored. The destructor
/// restores what was before. One at a time in a process.
///
/// SIGHUP stays ignored where it was (nohup). SIGINT does not, although shells start background jobs of scripts with it
/// ignored: whoever sends it to a launcher means it.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// Readable when a signal waits.
  int fd() const { return read_end_; }

  /// The signals that came since the last call, in order.
  std::vector<int> take();

  /// What a program should start with: the default, or ignored where it was so before (SIGINT: always the default).
  /// Only for the child between fork and exec; async-signal-safe.
  void restore_in_child() const;

 private:
  struct Saved {
    int signal;
    struct sigaction action;
  };
  void install(int signal, void (*handler)(int));

  int read_end_ = -1;
  int write_end_ = -1;
  std::vector<Saved> saved_;
};

}  // namespace trireme::launch
