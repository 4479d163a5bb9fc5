#include "trireme/launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace trireme::launch {
namespace {

struct Process {
  pid_t pid;
  pid_t parent;
  bool zombie;
};

// "1234 (name with ) and spaces) S 1 ...": state and parent stand after the last parenthesis
bool read_process(const char* pid, Process& process) {
  char path[300];
  std::snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[512];
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return false;
  text[size] = '\0';
  const char* end = std::strrchr(text, ')');
  char state = 0;
  int parent = 0;
  if (!end || std::sscanf(end + 1, " %c %d", &state, &parent) != 2) return false;
  process = {static_cast<pid_t>(std::atol(pid)), parent, state == 'Z' || state == 'X'};
  return true;
}

}  // namespace

std::vector<pid_t> descendants(pid_t parent, const std::vector<pid_t>& except) {
  std::multimap<pid_t, Process> children;
  if (DIR* proc = opendir("/proc")) {
    while (const dirent* entry = readdir(proc)) {
      Process process{};
      if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && read_process(entry->d_name, process)) {
        children.emplace(process.parent, process);
      }
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
      if (!process.zombie) result.push_back(process.pid);
      parents.push_back(process.pid);
    }
    children.erase(begin, end);
  }
  return result;
}

}  // namespace trireme::launch
