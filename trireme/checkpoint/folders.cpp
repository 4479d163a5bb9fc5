#include "trireme/checkpoint/folders.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/checkpoint/files.h"

namespace trireme::checkpoint {
namespace {

constexpr std::string_view prefix = "step_";
constexpr size_t least_digits = 8;

}  // namespace

std::string step_name(int64_t step) {
  TRIREME_CHECK(step >= 0, "step ", step);
  std::string digits = std::to_string(step);
  if (digits.size() < least_digits) digits.insert(0, least_digits - digits.size(), '0');
  return std::string(prefix) + digits;
}

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::string step_folder(const std::string& run_folder, int64_t step) {
  return run_folder + "/checkpoints/" + step_name(step);
}

std::vector<int64_t> steps(const std::string& run_folder) {
  std::vector<int64_t> found;
  std::error_code error;
  const std::filesystem::directory_iterator folder(run_folder + "/checkpoints", error);
  if (error == std::errc::no_such_file_or_directory) return found;
  if (error) throw base::SystemError(base::text_of("cannot list ", run_folder, "/checkpoints: ", error.message()));
  for (const auto& entry : folder) {
    const auto step = step_of(entry.path().filename().string());
    if (step) found.push_back(*step);  // one without a manifest is damaged, not absent
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::string> newest(const std::string& run_folder) {
  const std::vector<int64_t> found = steps(run_folder);
  if (found.empty()) return std::nullopt;
  return step_folder(run_folder, found.back());
}

void remove_leftovers(const std::string& run_folder) {
  remove_folder(run_folder + "/checkpoints.partial");
}

}  // namespace trireme::checkpoint
