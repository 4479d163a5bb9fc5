#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace trireme::shm {
class StatusBoard;
}

// Starts the ranks of one host, and ends them.
//
// What holds:
// - Ranks are direct children of the launcher, each the leader of a process group of its own. They are given torchrun's
//   variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, ...) and OMP_NUM_THREADS.
// - SIGINT, SIGTERM and SIGHUP are forwarded once each to the groups of all ranks; within 1 s of the first the same
//   signal is the same keystroke; later, a second one kills everything at once.
// - The first rank that fails ends the others: SIGTERM, `grace`, SIGKILL. That reaches all that the ranks started, in
//   whatever session or group: while it lives the launcher is the subreaper of its descendants. The same holds for what
//   successful ranks leave behind. Nothing stays but what SIGKILL does not end (a process waiting in the kernel).
// - Where the launcher itself is killed with kill -9, the kernel kills the ranks with it. Processes that ranks started
//   are then orphans: nothing ends them but their own PR_SET_PDEATHSIG or a closed pipe.
namespace trireme::launch {

struct LaunchSpec {
  std::vector<std::string> command;  ///< program (looked up in PATH) and arguments
  int ranks = 1;                     ///< at least 1
  std::string log_dir;               ///< also write each rank's output to log_dir/rank_N.log; empty: do not
  int threads = 0;                   ///< OMP_NUM_THREADS of a rank; 0: see rank_threads()
  bool bind = true;                  ///< bind ranks to disjoint CPUs where there are enough
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  ///< between SIGTERM and SIGKILL after a failure
  std::string master_addr = "127.0.0.1";
  int master_port = 0;        ///< 0: a free one
  bool prefix_output = true;  ///< "[rank 1] " before each line; never with one rank
};

/// A rank that ends with this code says: "I failed only because a peer was lost". The launcher then waits for the
/// peer's own failure and names that.
inline constexpr int peer_lost_exit_code = 76;

/// Set to the launcher's process id in the environment of its ranks: their lines get a prefix, peer_lost_exit_code is
/// understood.
inline constexpr const char* launcher_variable = "TRIREME_LAUNCHER";

/// The address of the board (shm/status_board.h) on which the launcher tells how its ranks end, in their environment.
inline constexpr const char* status_variable = "TRIREME_STATUS_BOARD";

/// The board at that address; null where no launcher gave one, or it is gone.
std::shared_ptr<shm::StatusBoard> board_of_launcher();

/// Set to the terminal's columns in the environment of ranks whose output ends up on a terminal.
inline constexpr const char* terminal_variable = "TRIREME_TERMINAL_COLUMNS";

/// Columns of the terminal that this process's output ends up on, through the launcher too; 0: none.
int terminal_columns();

/// Runs the ranks to their end. Returns 0 where all returned 0; the exit code of the rank that failed first (128 + n if
/// signal n killed it), whose name, cause and last activity are then the last line on stderr; 128 + n where the
/// launcher was asked to stop by signal n. Rank 0 gets the launcher's stdin unless that is a terminal, the others
/// /dev/null.
///
/// Throws base::UsageError (ranks, ports, OMP_NUM_THREADS), StartError (no such program), base::SystemError (log
/// folder, processes), always with no process left. Changes signal handlers and the subreaper flag while it runs, and
/// restores them: call it from the main thread, one at a time.
int launch(const LaunchSpec& spec);

}  // namespace trireme::launch
