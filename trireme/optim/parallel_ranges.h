#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace trireme::optim {

/// Calls body(begin, end) on disjoint parts of [0, elements.numel()), at least `grain` elements each, on the threads of
/// at::get_num_threads(). elements: contiguous [n]. The parts depend on the number of threads.
///
/// The threads are libtorch's own, reached through TensorIterator: at::parallel_for is a template that runs on one
/// thread in a file compiled without OpenMP, and compiling with it would load a second OpenMP runtime with a second
/// pool.
void parallel_ranges(const at::Tensor& elements, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace trireme::optim
