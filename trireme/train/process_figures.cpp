#include "trireme/train/process_figures.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace trireme::train {

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

int64_t pss_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "Pss:") return kilobytes * 1024;
  }
  return 0;
}

double seconds_since_start_of(int process) {
  std::ifstream in("/proc/" + (process ? std::to_string(process) : "self") + "/stat");
  std::string text;
  std::getline(in, text);
  // the command's name, in parentheses, may hold blanks; start time is field 22
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         std::atof(field.c_str()) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace trireme::train
