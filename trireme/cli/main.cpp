// `trireme`: checks, plans and starts. It links no torch, so it answers in milliseconds; `trireme-rank`, which lies
// beside it, does the work.
#include "trireme/cli/command_line.h"
#include "trireme/cli/guarded.h"
#include "trireme/cli/verbs.h"

int main(int argc, char** argv) {
  using namespace trireme::cli;
  return guarded(
      [&] { return run_verb(parse_command_line(argc, argv, "trireme"), program_beside_this("trireme-rank")); });
}
