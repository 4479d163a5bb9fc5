#include "trireme/launch/slurm.h"

#include <charconv>

#include "trireme/base/error.h"

namespace trireme::launch {
namespace {

// Takes a whole number of at least 1 off the front of `text`; false where there is none.
bool take_count(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::vector<int> parse_tasks_per_node(std::string_view text, const std::string& variable) {
  constexpr size_t most_nodes = 1 << 20;  // a mistyped "2(x999999999)" must not fill memory
  std::vector<int> result;
  std::string_view rest = text;
  bool good = true;
  do {
    int tasks = 0;
    int nodes = 1;
    good = take_count(rest, tasks);
    if (good && take(rest, "(x")) good = take_count(rest, nodes) && take(rest, ")");
    good = good && result.size() + static_cast<size_t>(nodes) <= most_nodes;
    if (good) result.insert(result.end(), static_cast<size_t>(nodes), tasks);
  } while (good && take(rest, ","));
  if (!good || !rest.empty()) {
    throw base::UsageError(base::text_of(variable, "='", text, "' is not a list of tasks per node like 2(x3),1"));
  }
  return result;
}

std::string first_host(std::string_view node_list) {
  const size_t end = node_list.find_first_of(",[");
  if (end == std::string_view::npos || node_list[end] == ',') return std::string(node_list.substr(0, end));
  std::string host(node_list.substr(0, end));
  const std::string_view inside = node_list.substr(end + 1);
  host += inside.substr(0, inside.find_first_of(",-]"));
  const size_t close = inside.find(']');
  if (close != std::string_view::npos) {
    const std::string_view suffix = inside.substr(close + 1);
    host += suffix.substr(0, suffix.find(','));
  }
  return host;
}

}  // namespace trireme::launch
