#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/base/dtype.h"

namespace trireme::shm {

enum class Operation : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  Gather,
  Scatter,
  AllToAll,
  Barrier,
  Send,
  Recv
};

/// Sums are taken in rank order; Average is the sum divided once by the group's size.
enum class ReduceOp : uint8_t { Sum, Average, Min, Max, Product };

/// "all_reduce", …
std::string_view name_of(Operation operation);

/// "sum", "average", …
std::string_view name_of(ReduceOp op);

}  // namespace trireme::shm
