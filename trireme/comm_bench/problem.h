#pragma once

#include <cstdint>

#include "trireme/cli/bench_request.h"

namespace trireme::comm_bench {

using cli::BenchOp;

/// One row.
struct Problem {
  BenchOp op = BenchOp::AllReduce;
  int64_t bytes = 0;  // of the full buffer
  base::DType dtype = base::DType::F32;
  int ranks = 2;

  /// Elements of the full buffer; where the operation cuts it into equal parts, a multiple of the ranks, rounded down.
  int64_t elements() const {
    const int64_t all = bytes / static_cast<int64_t>(base::size_of(dtype));
    const bool cut = op == BenchOp::ReduceScatter || op == BenchOp::AllGather || op == BenchOp::AllToAll;
    return cut ? all / ranks * ranks : all;
  }
};

}  // namespace trireme::comm_bench
