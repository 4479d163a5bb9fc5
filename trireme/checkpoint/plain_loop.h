#pragma once

#include <string>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "trireme/base/json.h"

namespace trireme::comm {
class Group;
}

// Checkpoints for a training loop of the user's own: parameters, buffers, the optimizer with its options, every rank's
// random stream, and whatever else the user hands over as JSON.
namespace trireme::checkpoint {

/// Collective. Writes the folder `path` (replaced if it exists, atomically). Parameters are taken to be equal on all
/// ranks; buffers are rank 0's. `extra` (rank 0's) comes back from load_checkpoint: epoch, step, schedule.
void save_checkpoint(const std::string& path, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                     const comm::Group& group, const base::Json& extra = base::Json::object());

/// Loads on any number of ranks; no communication. Module and optimizer are unchanged if anything does not fit
/// (DataError with the tensor and both shapes). With as many ranks as saved, each rank's default generator continues
/// where it was; with another number, every rank gets a new stream of its own.
base::Json load_checkpoint(const std::string& path, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                           const comm::Group& group);

}  // namespace trireme::checkpoint
