#include "trireme/train/process_figures.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "trireme/base/process.h"

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
  const auto stat = base::process_stat(process);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         static_cast<double>(stat ? stat->start_ticks : 0) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace trireme::train
