#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Names and order of the checkpoints of a run folder:
//   run_folder/checkpoints/step_00000100     committed; nothing else appears there
//   run_folder/checkpoints.partial/          a save in progress, or what a killed one left
namespace trireme::checkpoint {

/// "step_00000100"; longer numbers get longer names.
std::string step_name(int64_t step);

/// The step in a name made by step_name; nothing for any other name.
std::optional<int64_t> step_of(const std::string& name);

/// Steps of the committed checkpoints, ascending as numbers. A folder without a manifest (half copied by hand) is not
/// one. Whether the bytes are sound is for Checkpoint to say: a damaged checkpoint is refused, never skipped silently.
std::vector<int64_t> steps(const std::string& run_folder);

/// Folder of the checkpoint with the highest step; nothing if there is none.
std::optional<std::string> newest(const std::string& run_folder);

/// run_folder/checkpoints/step_N
std::string step_folder(const std::string& run_folder, int64_t step);

/// Removes what killed saves left in run_folder/checkpoints.partial. Not while a save is in progress.
void remove_leftovers(const std::string& run_folder);

}  // namespace trireme::checkpoint
