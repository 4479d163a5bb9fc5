#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/launch/signals.h"

namespace trireme::launch {

/// A program could not be executed: exit code 127 where it was not found, else 126, as shells have it.
class StartError : public base::SystemError {
 public:
  StartError(const std::string& program, int error_number);
  int exit_code() const override { return exit_code_; }

 private:
  int exit_code_;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

struct RankStart {
  std::vector<std::string> command;  ///< program (looked up in PATH) and arguments
  Variables variables;               ///< added to the environment, or replaced in it
  std::vector<int> cpus;             ///< to bind to; empty: as the launcher is
  int output = -1;                   ///< becomes stdout; -1: the launcher's
  int errors = -1;                   ///< becomes stderr; -1: the launcher's
  bool give_input = false;           ///< the launcher's stdin, unless it is a terminal; else /dev/null
};

/// Starts a rank as a child in a process group of its own, which the kernel kills when the launcher dies, kill -9
/// included. Returns its process id once the program runs. Throws StartError, or base::SystemError where fork fails.
pid_t start_rank(const RankStart& start, const SignalPipe& signals);

/// execvp of `command` with `variables` added; returns only by throwing StartError.
[[noreturn]] void become(const std::vector<std::string>& command, const Variables& variables);

}  // namespace trireme::launch
