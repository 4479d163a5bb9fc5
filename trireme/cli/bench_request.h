#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"

namespace trireme::cli {

enum class BenchOp { AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, AllToAll, SendRecv, Barrier };

/// "all_reduce", …, "send_recv", "barrier".
std::string_view name_of(BenchOp op);

/// What `trireme bench comm` measures: every operation at every size (the barrier once), a row each.
struct BenchRequest {
  std::vector<BenchOp> ops = {BenchOp::AllReduce, BenchOp::ReduceScatter, BenchOp::AllGather};
  /// Bytes of the full buffer: what all_gather leaves and reduce_scatter takes on a rank.
  std::vector<int64_t> sizes = {1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  base::DType dtype = base::DType::F32;
  bool private_memory = false;  ///< ordinary memory instead of the arena's
  bool against_mpi = false;
  bool against_gloo = false;
  bool table = false;  ///< print the table of algorithms, measure nothing
};

/// The values of --ops, --sizes, --dtype, --memory and --against, empty where a flag is not given. Throws
/// base::UsageError that names flag, value and what is known.
struct BenchTexts {
  std::string what, ops, sizes, dtype, memory, against;
};
BenchRequest parse_bench(const BenchTexts& texts);

}  // namespace trireme::cli
