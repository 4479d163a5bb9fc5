#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// What the kernel says about processes, and how they end.
namespace trireme::base {

struct ProcessStat {
  char state = '?';          // as in ps: R running, S sleeping, T stopped, Z ended and not yet collected, …
  int parent = 0;            // its process id
  uint64_t start_ticks = 0;  // since boot; tells a process from a later one with the same number
  int end = 0;               // of a Z: as waitpid() gives it

  bool stopped() const { return state == 'T' || state == 't'; }
  bool ended() const { return state == 'Z' || state == 'X'; }
};

/// Empty where no such process is seen. 0: this one.
std::optional<ProcessStat> process_stat(int process);

/// /proc/PROCESS/fd/N for each open file; empty where they may not be seen.
std::vector<std::filesystem::path> open_files(int process);

/// "signal 9 (SIGKILL)".
std::string signal_text(int signal);

/// "was killed by signal 9 (SIGKILL)", "exited with code 3"; `end` as waitpid() gives it.
std::string end_text(int end);

}  // namespace trireme::base
