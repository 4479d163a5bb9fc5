#include "trireme/base/process.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "trireme/base/error.h"

namespace trireme::base {

std::optional<ProcessStat> process_stat(int process) {
  std::ifstream in("/proc/" + (process == 0 ? "self" : std::to_string(process)) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  // the command's name, in parentheses, may hold anything, lines too; what follows starts with field 3
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::vector<std::string> fields(3);
  for (std::string field; rest >> field;) fields.push_back(field);
  if (fields.size() < 53) return {};
  return ProcessStat{.state = fields[3][0],
                     .parent = std::stoi(fields[4]),
                     .start_ticks = std::stoull(fields[22]),
                     .end = std::stoi(fields[52])};
}

std::vector<std::filesystem::path> open_files(int process) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(text_of("/proc/", process, "/fd"), error), end; !error && entry != end;
       entry.increment(error)) {
    files.push_back(entry->path());
  }
  return files;
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
