#pragma once

#include <functional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/comm_bench/problem.h"

// Who runs in a row: Trireme, its opponents, and the floor below all of them.
namespace trireme::comm_bench {

/// `run` makes the operation once, from call to completion on this rank; every rank calls it equally often. It keeps
/// its buffers.
struct Contender {
  std::string name;
  std::function<void()> run;
};

enum class Memory { Arena, Private };

/// The operation through `group`, whatever its backend, on memory that the group moves without a copy, or on ordinary
/// memory. Checks the result of one run. Send and receive are one message from rank 0 to rank 1 and one back, every
/// further rank stands by.
Contender group_contender(const std::string& name, const comm::Group& group, const Problem& problem, Memory memory);

/// The same additions and copies on this rank's own memory: all ranks at once, nobody waits for anybody. No shared
/// memory transport moves the data in less, unless it comes out of a cache.
Contender floor_contender(const Problem& problem, int rank);

/// MPI's own calls, in place where MPI has that. Throws UsageError where this build has no MPI, and for elements that
/// MPI cannot add.
Contender mpi_contender(const Problem& problem, int rank);

/// Starts MPI with an allocator that keeps large blocks, as its temporary buffers would otherwise be fresh pages each
/// time. Throws UsageError without MPI, or outside mpirun.
void start_mpi(int ranks);

/// After the last contender of MPI.
void end_mpi();

}  // namespace trireme::comm_bench
