#include "trireme/base/process.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::base {

std::optional<ProcessStat> process_stat(int process) {
  std::ifstream in("/proc/" + (process == 0 ? "self" : std::to_string(process)) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return {};
  // the command's name, in parentheses, may hold blanks; what follows starts with field 3
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::vector<std::string> fields(3);
  for (std::string field; rest >> field;) fields.push_back(field);
  if (fields.size() < 53) return {};
  return ProcessStat{.state = fields[3][0],
                     .parent = std::stoi(fields[4]),
                     .start_ticks = std::stoull(fields[22]),
                     .end = std::stoi(fields[52])};
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? text_of("signal ", signal, " (SIG", name, ")") : text_of("signal ", signal);
}

std::string end_text(int end) {
  if (WIFSIGNALED(end)) return "was killed by " + signal_text(WTERMSIG(end));
  return text_of("exited with code ", WEXITSTATUS(end));
}

}  // namespace trireme::base
