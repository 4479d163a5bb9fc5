#include "trireme/base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "trireme/base/names.h"

namespace trireme::base {
namespace {

const std::array<std::string, 4> kNames{"debug", "info", "warning", "error"};

std::atomic<Level> least_level{Level::Info};
std::mutex prefix_mutex;
std::string line_prefix;

void write_line(const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    // nobody is left to be told
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

}  // namespace

void set_log_level(Level level) {
  least_level.store(level, std::memory_order_relaxed);
}

bool log_enabled(Level level) {
  return level >= least_level.load(std::memory_order_relaxed);
}

Level log_level_named(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Level>(i);
  throw UsageError(
      text_of("unknown log level ", base::quoted(name), "; one of ", joined(kNames), did_you_mean(name, kNames)));
}

void set_log_prefix(std::string prefix) {
  const std::lock_guard lock(prefix_mutex);
  line_prefix = std::move(prefix);
}

void log(Level level, std::string_view text) {
  if (!log_enabled(level)) return;
  std::string head;
  {
    const std::lock_guard lock(prefix_mutex);
    head = line_prefix;
  }
  if (level != Level::Info) head += kNames[static_cast<size_t>(level)] + ": ";
  while (true) {
    const size_t end = text.find('\n');
    write_line(text_of(head, text.substr(0, end), '\n'));
    if (end == std::string_view::npos || end + 1 == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace trireme::base
