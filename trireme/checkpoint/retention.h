#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::checkpoint {

/// The steps to delete so that the newest `keep` (0 = all) of `steps` remain, `written` among them whatever its place.
std::vector<int64_t> expired(std::vector<int64_t> steps, int64_t written, int64_t keep);

/// Deletes expired checkpoints that carry this run id: each is renamed into run_folder/checkpoints.partial first, so
/// that a kill never leaves half a checkpoint under its name. What cannot be deleted is said in the log.
void retain(const std::string& run_folder, const std::string& run_id, int64_t written, int64_t keep);

}  // namespace trireme::checkpoint
