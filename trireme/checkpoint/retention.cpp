#include "trireme/checkpoint/retention.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/log.h"
#include "trireme/checkpoint/files.h"
#include "trireme/checkpoint/folders.h"
#include "trireme/checkpoint/manifest.h"

namespace trireme::checkpoint {

std::vector<int64_t> expired(std::vector<int64_t> steps, int64_t written, int64_t keep) {
  if (keep <= 0) return {};
  std::erase(steps, written);
  std::sort(steps.begin(), steps.end());
  const auto others_kept = std::min(static_cast<size_t>(keep - 1), steps.size());
  steps.resize(steps.size() - others_kept);
  return steps;
}

void retain(const std::string& run_folder, const std::string& run_id, int64_t written, int64_t keep) {
  if (keep <= 0) return;
  std::vector<int64_t> of_this_run;
  for (const int64_t step : steps(run_folder)) {
    const std::string path = step_folder(run_folder, step) + "/" + manifest_name;
    try {
      if (parse_manifest(base::read_file(path), path).run_id == run_id) of_this_run.push_back(step);
    } catch (const base::Error& error) {
      base::log_warning("a damaged checkpoint is not deleted: ", error.what());
    }
  }
  for (const int64_t step : expired(std::move(of_this_run), written, keep)) {
    const std::string folder = step_folder(run_folder, step);
    const std::string aside = run_folder + "/checkpoints.partial/" + step_name(step);
    std::error_code error;
    std::filesystem::rename(folder, aside, error);
    if (error)
      base::log_warning("cannot delete the old checkpoint ", folder, ": ", error.message());
    else
      remove_folder(aside);
  }
}

}  // namespace trireme::checkpoint
