#pragma once

#include <string>

#include "trireme/checkpoint/plain_loop.h"
#include "trireme/data_parallel/distributed_data_parallel.h"

// Checkpoints of a plain loop with DistributedDataParallel: those of checkpoint/plain_loop.h over the wrapper's group.
namespace trireme::train {

inline void save_checkpoint(const std::string& path, data_parallel::DistributedDataParallel& ddp,
                            torch::optim::Optimizer& optimizer, const base::Json& extra = base::Json::object()) {
  checkpoint::save_checkpoint(path, ddp.module(), optimizer, ddp.group(), extra);
}

inline base::Json load_checkpoint(const std::string& path, data_parallel::DistributedDataParallel& ddp,
                                  torch::optim::Optimizer& optimizer) {
  ddp.forget_gradients();
  return checkpoint::load_checkpoint(path, ddp.module(), optimizer, ddp.group());
}

}  // namespace trireme::train
