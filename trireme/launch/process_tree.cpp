#include "trireme/launch/process_tree.h"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "trireme/base/process.h"

namespace trireme::launch {
namespace {

struct Process {
  pid_t pid;
  bool ended;
};

}  // namespace

std::vector<pid_t> descendants(pid_t parent, const std::vector<pid_t>& except) {
  std::multimap<pid_t, Process> children;
  if (DIR* proc = opendir("/proc")) {
    while (const dirent* entry = readdir(proc)) {
      const pid_t pid = std::atoi(entry->d_name);  // 0: no process's folder
      if (pid == 0) continue;
      if (const auto stat = base::process_stat(pid)) children.emplace(stat->parent, Process{pid, stat->ended()});
    }
    closedir(proc);
  }
  std::vector<pid_t> result;
  std::vector<pid_t> parents = {parent};
  while (!parents.empty()) {
    const auto [begin, end] = children.equal_range(parents.back());
    parents.pop_back();
    for (auto child = begin; child != end; ++child) {
      const Process& process = child->second;
      if (std::find(except.begin(), except.end(), process.pid) != except.end()) continue;
      if (!process.ended) result.push_back(process.pid);
      parents.push_back(process.pid);
    }
    children.erase(begin, end);
  }
  return result;
}

}  // namespace trireme::launch
