#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "trireme/base/json.h"

// The whole state of torch::optim::SGD, Adam and AdamW as data: libtorch's own archive restores moments and counters
// but leaves lr, decay, betas and eps as constructed.
namespace trireme::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Everything but the moments as JSON: {"type", "groups": [{"parameters": [names], "options": {...}}], "steps"};
/// and the moments under the names "optimizer/<moment>/<parameter>". `parameters` must name every parameter of every
/// group. The tensors are the optimizer's own, not copies. UsageError for any other optimizer, by name.
std::pair<base::Json, std::vector<NamedTensor>> optimizer_state(torch::optim::Optimizer& optimizer,
                                                                const std::vector<NamedTensor>& parameters);

/// Fills a tensor that has the right shape and dtype and is contiguous.
using ReadTensor = std::function<void(const NamedTensor&)>;

/// Installs options, counters and moments; the optimizer must be of the same type, with the same parameters in the same
/// groups (DataError with the first difference otherwise). Nothing is changed until every moment has been read.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const base::Json& saved,
                          const std::vector<NamedTensor>& parameters, const ReadTensor& read);

/// module's parameters with their dotted names.
std::vector<NamedTensor> named_parameters(torch::nn::Module& module);

}  // namespace trireme::checkpoint
