#pragma once

#include <filesystem>
#include <optional>
#include <vector>

// Which CPUs this process may use: what the affinity mask and the cgroup leave, never what the machine has.
namespace trireme::launch {

/// CPUs of the affinity mask, neighbours in the machine side by side (package, then core, then hyper-thread), so that a
/// contiguous part of the list shares no core with the rest where it can be helped.
std::vector<int> available_cpus();

/// CPUs' worth of time that the cgroup grants (cgroup v2's cpu.max, v1's cpu.cfs_quota_us, the tightest of all levels);
/// nothing where it grants all. `root` is prepended to /proc and /sys.
std::optional<double> cgroup_cpu_limit(const std::filesystem::path& root = "/");

/// Number of cores to plan with: `cpus`, cut to the whole part of `limit`, at least 1.
int usable_cores(int cpus, std::optional<double> limit);

/// usable_cores() of this process.
int usable_cores();

}  // namespace trireme::launch
