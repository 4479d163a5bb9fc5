#include "trireme/launch/rank_end.h"

#include <sys/wait.h>

#include "trireme/base/error.h"
#include "trireme/base/process.h"
#include "trireme/launch/launch.h"

namespace trireme::launch {

bool succeeded(const RankEnd& end) {
  return WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0;
}

bool is_echo(const RankEnd& end) {
  return WIFEXITED(end.status) && WEXITSTATUS(end.status) == peer_lost_exit_code;
}

int exit_code(const RankEnd& end) {
  if (WIFSIGNALED(end.status)) return 128 + WTERMSIG(end.status);
  return is_echo(end) ? 1 : WEXITSTATUS(end.status);
}

std::string describe(const RankEnd& end) {
  if (is_echo(end)) return base::text_of("rank ", end.rank, " lost a peer");
  return base::text_of("rank ", end.rank, " ", base::end_text(end.status));
}

bool answers(const RankEnd& end, int signal) {
  if (WIFSIGNALED(end.status)) return WTERMSIG(end.status) == signal;
  return succeeded(end) || is_echo(end) || WEXITSTATUS(end.status) == 128 + signal;
}

std::optional<RankEnd> first_cause(const std::vector<RankEnd>& ends) {
  const auto weight = [](const RankEnd& end) { return WIFSIGNALED(end.status) ? 2 : is_echo(end) ? 0 : 1; };
  std::optional<RankEnd> cause;
  for (const RankEnd& end : ends) {
    if (succeeded(end)) continue;
    const bool better =
        !cause || weight(end) > weight(*cause) || (weight(end) == weight(*cause) && end.rank < cause->rank);
    if (better) cause = end;
  }
  return cause;
}

}  // namespace trireme::launch
