// Built where MPI is found; else mpi_absent.cpp is.
#include <malloc.h>
#define OMPI_SKIP_MPICXX 1  // plain C
#include <mpi.h>

#include <climits>
#include <memory>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm_bench/contender.h"

namespace trireme::comm_bench {

void start_mpi(int ranks) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  int provided = 0, size = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != ranks) {
    throw base::UsageError(base::text_of("MPI has ", size, " ranks, not ", ranks, "; start it with mpirun -n ", ranks));
  }
}

Contender mpi_contender(const Problem& problem, int rank) {
  if (problem.dtype != base::DType::F32) {
    throw base::UsageError("MPI adds no 16-bit floats; compare with gloo only, or measure --dtype fp32");
  }
  const auto count = static_cast<size_t>(problem.elements());
  const size_t part = count / static_cast<size_t>(problem.ranks);
  if (count > INT_MAX) throw base::UsageError("MPI counts elements with 31 bits; measure less than 8 GiB");
  auto whole = std::make_shared<std::vector<float>>(count);
  auto other = std::make_shared<std::vector<float>>(problem.op == BenchOp::AllToAll ? count : 0);
  const int all = static_cast<int>(count), one = static_cast<int>(part);
  return {"mpi", [=, op = problem.op] {
            float* data = whole->data();
            const MPI_Comm world = MPI_COMM_WORLD;
            switch (op) {
              case BenchOp::AllReduce:
                MPI_Allreduce(MPI_IN_PLACE, data, all, MPI_FLOAT, MPI_SUM, world);
                break;
              case BenchOp::ReduceScatter:
                MPI_Reduce_scatter_block(MPI_IN_PLACE, data, one, MPI_FLOAT, MPI_SUM, world);
                break;
              case BenchOp::AllGather:
                MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, data, one, MPI_FLOAT, world);
                break;
              case BenchOp::Broadcast:
                MPI_Bcast(data, all, MPI_FLOAT, 0, world);
                break;
              case BenchOp::Reduce:
                MPI_Reduce(rank == 0 ? MPI_IN_PLACE : data, data, all, MPI_FLOAT, MPI_SUM, 0, world);
                break;
              case BenchOp::AllToAll:
                MPI_Alltoall(data, one, MPI_FLOAT, other->data(), one, MPI_FLOAT, world);
                break;
              case BenchOp::Barrier:
                MPI_Barrier(world);
                break;
              case BenchOp::SendRecv:
                if (rank == 0) MPI_Send(data, all, MPI_FLOAT, 1, 0, world);
                if (rank < 2) MPI_Recv(data, all, MPI_FLOAT, 1 - rank, 0, world, MPI_STATUS_IGNORE);
                if (rank == 1) MPI_Send(data, all, MPI_FLOAT, 0, 0, world);
                break;
            }
          }};
}

void end_mpi() {
  MPI_Finalize();
}

}  // namespace trireme::comm_bench
