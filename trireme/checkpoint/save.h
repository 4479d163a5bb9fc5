#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/checkpoint/tensor.h"
#include "trireme/comm/agreement.h"

// Saving: every rank writes its share, rank 0 commits. docs/checkpoint_format.md describes the files.
namespace trireme::comm {
class Group;
}

namespace trireme::checkpoint {

struct SaveRequest {
  std::string run_folder;            ///< the checkpoint lands in run_folder/checkpoints/step_00000100
  int64_t step = 0;                  ///< optimizer updates done, >= 0
  std::vector<LocalTensor> tensors;  ///< this rank's pieces; equal pieces offered by several ranks are split among them
  base::Json state;                  ///< counters, options, data position; rank 0's is stored
  int64_t keep = 0;                  ///< newest checkpoints of this run to keep, this one included; 0 = all
  std::string run_id;                ///< the same over resumes: retention touches only checkpoints of this run
};

/// Collective over the group. Writes run_folder/checkpoints.partial/step_N, proves that the pieces of all ranks cover
/// every element of every tensor exactly once, and renames the folder into run_folder/checkpoints. A kill at any point
/// leaves earlier checkpoints as they were. The tensors must not change meanwhile. A step that exists is replaced.
/// If any rank fails, all ranks throw the same error, which names that rank and ends in errno's words (SystemError) or
/// names the tensor (UsageError), and nothing of this save is left on disk.
void save(const SaveRequest& request, const comm::Group& group);

/// The same into exactly `folder` (no steps, no retention); in progress it lies in folder + ".partial".
/// request.run_folder and request.keep are not used.
void save_to(const std::string& folder, const SaveRequest& request, const comm::Group& group);

using comm::GatherStrings;

/// The same saves over any means of exchange.
void save(const SaveRequest& request, int rank, const GatherStrings& gather);
void save_to(const std::string& folder, const SaveRequest& request, int rank, const GatherStrings& gather);

/// For start-up: a sentence if the file system of `folder` (or its nearest existing parent) has less than `bytes` free
/// or cannot be written to; nothing otherwise.
std::optional<std::string> space_warning(const std::string& folder, int64_t bytes);

}  // namespace trireme::checkpoint
