#include <memory>
#include <vector>

#include "trireme/comm_bench/contender.h"
#include "trireme/shm/copy.h"
#include "trireme/shm/reduce.h"

namespace trireme::comm_bench {
namespace {

using Bytes = std::vector<std::byte>;

struct Work {
  size_t summed = 0;   // elements, of `ranks` sources each
  size_t copied = 0;   // bytes
  size_t element = 0;  // bytes
};

Work unavoidable(const Problem& problem, int rank) {
  const auto count = static_cast<size_t>(problem.elements());
  const auto ranks = static_cast<size_t>(problem.ranks);
  const size_t element = base::size_of(problem.dtype);
  const size_t share = (count + ranks - 1) / ranks;
  const size_t others = count * element * (ranks - 1) / ranks;
  switch (problem.op) {
    case BenchOp::AllReduce:
      return {share, others, element};
    case BenchOp::ReduceScatter:
    case BenchOp::Reduce:
      return {share, 0, element};
    case BenchOp::AllGather:
    case BenchOp::AllToAll:
      return {0, others, element};
    case BenchOp::Broadcast:
      return {0, rank == 0 ? 0 : count * element, element};
    case BenchOp::SendRecv:
      return {0, rank > 1 ? 0 : count * element, element};
    case BenchOp::Barrier:
      break;
  }
  return {};
}

}  // namespace

Contender floor_contender(const Problem& problem, int rank) {
  const Work work = unavoidable(problem, rank);
  const size_t bytes = std::max(work.summed * work.element, work.copied);
  auto memory = std::make_shared<std::vector<Bytes>>(static_cast<size_t>(problem.ranks), Bytes(bytes));
  std::vector<const std::byte*> sources;
  for (const Bytes& source : *memory) sources.push_back(source.data());
  std::byte* first = memory->front().data();
  return {"floor", [=, dtype = problem.dtype, kept = memory] {
            if (work.summed > 0) shm::reduce_elements(sources, first, work.summed, dtype, shm::ReduceOp::Sum);
            if (work.copied > 0) shm::copy_bytes(first, sources.back(), work.copied);
          }};
}

}  // namespace trireme::comm_bench
