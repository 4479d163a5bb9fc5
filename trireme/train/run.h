#pragma once

#include <functional>
#include <string>

#include "trireme/comm/world.h"
#include "trireme/layers/job.h"
#include "trireme/spec/config.h"
#include "trireme/train/run_folder.h"

namespace trireme::train {

struct RunRequest {
  RunFolderRequest folder;
  std::string resume_command;  // what to type to go on with this run, without the folder
  int terminal_columns = 0;    // that the output ends up on; 0: none
  int launcher = 0;            // the process that the run began with; 0: this one
  /// Text of sampled tokens, for the sample after a run; null: the job has none.
  std::function<std::string(const std::vector<int64_t>&)> decode;
};

/// A whole training run: run folder, steps, evaluations, checkpoints, export, summary. Returns the exit code: 0, or 130
/// after Ctrl-C (143 after SIGTERM), with a checkpoint of the last step in all cases. Called by every rank.
int run_training(layers::Job job, const spec::Config& config, const RunRequest& request, const comm::World& world);

}  // namespace trireme::train
