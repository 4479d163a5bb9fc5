#include "trireme/shm/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace trireme::shm {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// "max" and an absent file are no number
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

uint64_t free_in_machine() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  uint64_t kib = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return kUnlimited;
}

// page cache that the kernel would drop first counts as free
uint64_t reclaimable(const std::string& group) {
  std::ifstream file(group + "/memory.stat");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "inactive_file") return value;
  }
  return 0;
}

uint64_t free_in_control_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  uint64_t least = kUnlimited;
  for (;;) {
    const std::string group = "/sys/fs/cgroup" + path;
    const auto limit = number_in(group + "/memory.max");
    const auto used = number_in(group + "/memory.current");
    if (limit && used) {
      const uint64_t taken = *used - std::min(*used, reclaimable(group));
      least = std::min(least, *limit - std::min(*limit, taken));
    }
    if (path.empty()) return least;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

}  // namespace

uint64_t available_memory() {
  return std::min(free_in_machine(), free_in_control_groups());
}

}  // namespace trireme::shm
