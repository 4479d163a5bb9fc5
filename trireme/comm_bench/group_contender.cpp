#include <ATen/ATen.h>

#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm_bench/contender.h"

namespace trireme::comm_bench {
namespace {

using comm::Group;

at::ScalarType scalar_type(base::DType dtype) {
  switch (dtype) {
    case base::DType::F16:
      return at::kHalf;
    case base::DType::BF16:
      return at::kBFloat16;
    default:
      return at::kFloat;
  }
}

struct Buffers {
  at::Tensor whole;  // [elements]
  at::Tensor other;  // all_to_all's result
  at::Tensor part;   // [elements / ranks], this rank's of `whole`
};

Buffers allocate(const Group& group, const Problem& problem, Memory memory) {
  const int64_t count = problem.elements();
  const auto type = scalar_type(problem.dtype);
  const auto make = [&] {
    return memory == Memory::Arena ? group.allocate({count}, type) : at::zeros({count}, at::dtype(type));
  };
  Buffers buffers;
  buffers.whole = make();
  const int64_t part = count / problem.ranks;
  if (problem.op == BenchOp::AllToAll) buffers.other = make();
  if (problem.op == BenchOp::AllGather || problem.op == BenchOp::ReduceScatter) {
    buffers.part = buffers.whole.narrow(0, part * group.rank(), part);
  }
  return buffers;
}

void run_once(const Group& group, const Problem& problem, const Buffers& b) {
  const int rank = group.rank();
  switch (problem.op) {
    case BenchOp::AllReduce:
      return group.all_reduce(b.whole).wait();
    case BenchOp::ReduceScatter:
      return group.reduce_scatter_tensor(b.part, b.whole).wait();
    case BenchOp::AllGather:
      return group.all_gather_into_tensor(b.whole, b.part).wait();
    case BenchOp::Broadcast:
      return group.broadcast(b.whole, 0).wait();
    case BenchOp::Reduce:
      return group.reduce(b.whole, 0).wait();
    case BenchOp::AllToAll:
      return group.all_to_all_single(b.other, b.whole).wait();
    case BenchOp::Barrier:
      return group.barrier().wait();
    case BenchOp::SendRecv:
      if (rank == 0) group.send(b.whole, 1).wait();
      if (rank < 2) group.recv(b.whole, 1 - rank).wait();
      if (rank == 1) group.send(b.whole, 0).wait();
  }
}

// element by element from ones on every rank: the ranks' number after a reduction, one after a movement
void check_result(const Group& group, const Problem& problem, const Buffers& b, const std::string& name) {
  if (problem.op == BenchOp::Barrier || problem.elements() == 0) return;
  b.whole.fill_(group.rank() + 1);
  run_once(group, problem, b);
  const int n = problem.ranks, rank = group.rank();
  const double sum = n * (n + 1) / 2.0;
  bool right = true;
  const auto is = [](const at::Tensor& tensor, double value) { return tensor.eq(value).all().item<bool>(); };
  const int64_t part = problem.elements() / n;
  switch (problem.op) {
    case BenchOp::AllReduce:
      right = is(b.whole, sum);
      break;
    case BenchOp::Reduce:
      right = rank != 0 || is(b.whole, sum);
      break;
    case BenchOp::ReduceScatter:
      right = is(b.part, sum);
      break;
    case BenchOp::AllGather:
    case BenchOp::AllToAll: {
      const at::Tensor& result = problem.op == BenchOp::AllGather ? b.whole : b.other;
      for (int peer = 0; peer < n; ++peer) right &= is(result.narrow(0, peer * part, part), peer + 1);
      break;
    }
    case BenchOp::Broadcast:
      right = is(b.whole, 1);
      break;
    case BenchOp::SendRecv:
      right = is(b.whole, rank < 2 ? 1 : rank + 1);
      break;
    case BenchOp::Barrier:
      break;
  }
  if (!right) throw base::CommError(base::text_of(name, " gave a wrong ", name_of(problem.op)));
  b.whole.zero_();  // repeated sums then stay finite
}

}  // namespace

Contender group_contender(const std::string& name, const Group& group, const Problem& problem, Memory memory) {
  const Buffers buffers = allocate(group, problem, memory);
  check_result(group, problem, buffers, name);
  return {name, [=] { run_once(group, problem, buffers); }};
}

}  // namespace trireme::comm_bench
