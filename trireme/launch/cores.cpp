#include "trireme/launch/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include "trireme/base/error.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

int topology(int cpu, const char* what) {
  std::ifstream file(base::text_of("/sys/devices/system/cpu/cpu", cpu, "/topology/", what));
  int value = 0;
  return file >> value ? value : 0;
}

// cgroup v2: "max 100000" or "150000 100000"
std::optional<double> limit_v2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  return std::strtod(quota.c_str(), nullptr) / period;
}

// cgroup v1: -1 is no limit
std::optional<double> limit_v1(const fs::path& folder) {
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

void tighten(std::optional<double>& limit, std::optional<double> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  std::string name;
  while (std::getline(names, name, ',')) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

std::vector<int> available_cpus() {
  // a machine may have more CPUs than cpu_set_t holds: the kernel refuses with EINVAL until the set is large enough
  for (size_t count = 1024; count <= (1u << 20); count *= 2) {
    cpu_set_t* set = CPU_ALLOC(count);
    const size_t bytes = CPU_ALLOC_SIZE(count);
    const bool got = sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> cpus;
    for (size_t cpu = 0; got && cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(static_cast<int>(cpu));
    }
    const bool too_small = !got && errno == EINVAL;
    CPU_FREE(set);
    if (too_small) continue;
    std::vector<std::tuple<int, int, int>> order;
    for (int cpu : cpus) order.emplace_back(topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) cpus[i] = std::get<2>(order[i]);
    if (!cpus.empty()) return cpus;
    break;
  }
  return {0};
}

std::optional<double> cgroup_cpu_limit(const fs::path& root) {
  std::optional<double> limit;
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream memberships(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(memberships, line)) {  // "4:cpu,cpuacct:/user.slice" or "0::/user.slice"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !lists_cpu(controllers)) continue;
    const std::vector<fs::path> tops = v2 ? std::vector<fs::path>{mount, mount / "unified"}
                                          : std::vector<fs::path>{mount / controllers, mount / "cpu"};
    // every level limits what is below it; inside a container the path may be the host's and only the top is there
    const fs::path inside = fs::path(line.substr(second + 1)).relative_path().lexically_normal();
    for (const fs::path& top : tops) {
      fs::path folder = top;
      tighten(limit, v2 ? limit_v2(folder) : limit_v1(folder));
      for (const fs::path& part : inside) {
        if (part == "..") break;
        folder /= part;
        tighten(limit, v2 ? limit_v2(folder) : limit_v1(folder));
      }
    }
  }
  return limit;
}

int usable_cores(int cpus, std::optional<double> limit) {
  int cores = std::max(cpus, 1);
  if (limit && *limit < cores) cores = std::max(static_cast<int>(*limit), 1);
  return cores;
}

int usable_cores() {
  return usable_cores(static_cast<int>(available_cpus().size()), cgroup_cpu_limit());
}

}  // namespace trireme::launch
