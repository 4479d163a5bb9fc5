#include "trireme/train/stop_signal.h"

#include <csignal>

namespace trireme::train {
namespace {

volatile std::sig_atomic_t received_signal = 0;
struct sigaction before_interrupt, before_terminate;

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = [](int signal) { received_signal = signal; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_interrupt);
  sigaction(SIGTERM, &action, &before_terminate);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGTERM, &before_terminate, nullptr);
}

int StopSignal::received() const {
  return received_signal;
}

}  // namespace trireme::train
