#pragma once

#include <functional>
#include <optional>
#include <string>

// Reads a rank's place in the world from what its launcher wrote. Pure over a function like getenv, so that the command
// line, the launcher and comm all decide alike and tests need no environment.
namespace trireme::launch {

struct RankVariables {
  int rank = 0;  ///< 0 <= rank < world_size
  int world_size = 1;
  int local_rank = 0;        ///< position among the ranks of this host
  int local_world_size = 1;  ///< ranks on this host
  std::string master_addr;   ///< where rank 0 listens
  int master_port = 0;       ///< 1 to 65535
  std::string source;        ///< whose variables these were: "torchrun", "OpenMPI", "MPICH", "Slurm"
};

using GetVariable = std::function<const char*(const char*)>;

/// The variables of whoever started this process; nothing where no launcher did. In this order:
///
/// 1. torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: all four or it is an error. LOCAL_RANK and
/// LOCAL_WORLD_SIZE
///    may be absent: then all ranks are taken to be on this host.
/// 2. OpenMPI's OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}.
/// 3. MPICH's PMI_RANK and PMI_SIZE with Hydra's MPI_LOCALRANKID and MPI_LOCALNRANKS.
/// 4. Slurm's variables of the step: SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_NUM_TASKS, SLURM_STEP_TASKS_PER_NODE.
/// Those
///    of the allocation (SLURM_NTASKS) say nothing about this process and are not read. A step of one task, as of
///    `srun --pty bash`, is no launcher.
/// 5. PMI_RANK and PMI_SIZE alone.
///
/// For 2 to 5, MASTER_ADDR and MASTER_PORT are used where set; otherwise the address is 127.0.0.1 if all ranks are on
/// this host (Slurm: the first node of the step), and the port is made from the job's id so that jobs do not meet.
///
/// Throws base::UsageError that names variable and value where one is missing beside others or is no sense.
std::optional<RankVariables> rank_variables(const GetVariable& getenv);

}  // namespace trireme::launch
