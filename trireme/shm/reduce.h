#pragma once

#include <cstddef>
#include <span>

#include "trireme/base/dtype.h"
#include "trireme/shm/operation.h"

namespace trireme::shm {

/// Throws CommError where Communicator::all_reduce's table has no such pair: the average of integers, sums of Bool,
/// 8- and 16-bit signed integers.
void check_reducible(base::DType dtype, ReduceOp op);

/// destination[i] = sources[0][i] op sources[1][i] op … for `count` elements, in this order. F16 and BF16 accumulate in
/// fp32 and are rounded once. `destination` may be one of the sources, else overlaps none. Throws CommError where a sum
/// or product of U8 does not fit; the destination then holds garbage. Requires check_reducible.
void reduce_elements(std::span<const std::byte* const> sources, std::byte* destination, size_t count, base::DType dtype,
                     ReduceOp op);

/// What reduce_elements does, with the instructions that every x86-64 has; false where U8 does not fit.
bool reduce_baseline(const std::byte* const* sources, size_t ranks, std::byte* destination, size_t count,
                     base::DType dtype, ReduceOp op);

/// The same bits with AVX2 and F16C; null where this build has none.
using Reduction = bool (*)(const std::byte* const* sources, size_t ranks, std::byte* destination, size_t count,
                           base::DType dtype, ReduceOp op);
Reduction reduce_avx2();

}  // namespace trireme::shm
