#include "trireme/launch/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::launch {
namespace {

// A signal handler has no argument of ours, so the pipe's end is global for as long as a SignalPipe lives.
volatile sig_atomic_t handler_fd = -1;

void write_to_pipe(int signal) {
  const int saved_errno = errno;
  const unsigned char byte = static_cast<unsigned char>(signal);
  // a full pipe drops it: then as many signals wait already
  [[maybe_unused]] const ssize_t n = write(handler_fd, &byte, 1);
  errno = saved_errno;
}

}  // namespace

SignalPipe::SignalPipe() {
  TRIREME_CHECK(handler_fd == -1, "two launches at a time in one process");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw base::SystemError(base::text_of("cannot make a pipe: ", std::strerror(errno)));
  }
  read_end_ = ends[0];
  write_end_ = ends[1];
  handler_fd = write_end_;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) install(signal, write_to_pipe);
  install(SIGPIPE, SIG_IGN);
}

SignalPipe::~SignalPipe() {
  for (const Saved& saved : saved_) sigaction(saved.signal, &saved.action, nullptr);
  handler_fd = -1;
  close(read_end_);
  close(write_end_);
}

void SignalPipe::install(int signal, void (*handler)(int)) {
  Saved saved{};
  saved.signal = signal;
  sigaction(signal, nullptr, &saved.action);
  saved_.push_back(saved);
  if (signal == SIGHUP && saved.action.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

std::vector<int> SignalPipe::take() {
  std::vector<int> result;
  unsigned char bytes[64];
  ssize_t n;
  while ((n = read(read_end_, bytes, sizeof bytes)) > 0) result.insert(result.end(), bytes, bytes + n);
  return result;
}

void SignalPipe::restore_in_child() const {
  for (const Saved& saved : saved_) {
    const bool keep = saved.action.sa_handler == SIG_IGN && saved.signal != SIGINT && saved.signal != SIGCHLD;
    struct sigaction action {};
    action.sa_handler = keep ? SIG_IGN : SIG_DFL;
    sigaction(saved.signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace trireme::launch
