// Built where MPI is not found; else mpi_contender.cpp is.
#include "trireme/base/error.h"
#include "trireme/comm_bench/contender.h"

namespace trireme::comm_bench {

void start_mpi(int) {
  throw base::UsageError(
      "this build has no MPI to measure against; install OpenMPI (Debian: libopenmpi-dev openmpi-bin) and build again");
}

Contender mpi_contender(const Problem&, int) {
  TRIREME_CHECK(false, "start_mpi() has refused");
  return {};
}

void end_mpi() {}

}  // namespace trireme::comm_bench
