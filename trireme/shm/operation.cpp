#include "trireme/shm/operation.h"

namespace trireme::shm {

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::AllReduce:
      return "all_reduce";
    case Operation::AllGather:
      return "all_gather";
    case Operation::ReduceScatter:
      return "reduce_scatter";
    case Operation::Broadcast:
      return "broadcast";
    case Operation::Reduce:
      return "reduce";
    case Operation::Gather:
      return "gather";
    case Operation::Scatter:
      return "scatter";
    case Operation::AllToAll:
      return "all_to_all";
    case Operation::Barrier:
      return "barrier";
    case Operation::Send:
      return "send";
    case Operation::Recv:
      return "recv";
  }
  return "unknown operation";
}

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return "sum";
    case ReduceOp::Average:
      return "average";
    case ReduceOp::Min:
      return "min";
    case ReduceOp::Max:
      return "max";
    case ReduceOp::Product:
      return "product";
  }
  return "unknown reduction";
}

}  // namespace trireme::shm
