#pragma once

#include <optional>
#include <string>
#include <vector>

// How a rank ended, and which of several ends was the cause.
namespace trireme::launch {

struct RankEnd {
  int rank = 0;
  int status = 0;  ///< as waitpid gives it
};

bool succeeded(const RankEnd& end);

/// Ended with peer_lost_exit_code: the echo of another rank's failure.
bool is_echo(const RankEnd& end);

/// What the launcher returns for it: the exit code, 128 + n for signal n, 1 for an echo.
int exit_code(const RankEnd& end);

/// "rank 1 was killed by signal 9 (SIGKILL)", "rank 1 exited with code 3".
std::string describe(const RankEnd& end);

/// After the launcher forwarded `signal`: this end is an answer to it (killed by it, exit code 0, 128 + signal, or an
/// echo), not a failure.
bool answers(const RankEnd& end, int signal);

/// Of ends that were seen in one look, so that their order is not known, the most likely cause: one killed by a signal
/// before one that exited, an echo last, then the lowest rank. Nothing where all succeeded.
std::optional<RankEnd> first_cause(const std::vector<RankEnd>& ends);

}  // namespace trireme::launch
