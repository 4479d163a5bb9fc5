#pragma once

#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/layers/model.h"

// What makes the ranks start, and stay, equal.
namespace trireme::data_parallel {

/// Throws base::ConfigError on every rank if the ranks' lists of parameters and buffers differ in name, order, shape,
/// dtype or requires_grad; the first difference is named, with both sides.
void compare_models(const comm::Group& group, const std::vector<layers::Parameter>& parameters,
                    const std::vector<layers::Buffer>& buffers);

/// Gives all ranks the values of `root`, compared by logical index (a rank may hold other strides). Writes the raw
/// memory of contiguous tensors, so that graphs that are alive notice no new version.
void broadcast_values(const comm::Group& group, const std::vector<at::Tensor>& tensors, int root = 0);

std::vector<at::Tensor> tensors_of(const std::vector<layers::Parameter>& parameters);
std::vector<at::Tensor> tensors_of(const std::vector<layers::Buffer>& buffers);

}  // namespace trireme::data_parallel
