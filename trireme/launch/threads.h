#pragma once

#include <optional>
#include <string>
#include <vector>

// How the cores of a host are shared out among its ranks.
namespace trireme::launch {

struct ThreadRequest {
  int cores = 1;                               ///< usable_cores()
  int ranks = 1;                               ///< on this host
  int threads = 0;                             ///< --threads; 0: not given
  std::optional<std::string> omp_num_threads;  ///< the user's OMP_NUM_THREADS
};

struct ThreadChoice {
  int threads = 1;      ///< a rank
  std::string warning;  ///< one line where the user asked for more threads than there are cores; else empty
};

/// --threads wins over OMP_NUM_THREADS (of a list "4,2" the first), which wins over cores / ranks, at least 1. Only the
/// user can oversubscribe, and is warned. Throws base::UsageError for an OMP_NUM_THREADS that is not a positive number.
ThreadChoice rank_threads(const ThreadRequest& request);

/// rank_threads() of this process for `local_ranks` ranks on this host: what a rank asks that mpirun or a shell
/// started.
ThreadChoice rank_threads_here(int local_ranks, int threads);

/// CPUs to bind each rank to: disjoint contiguous parts of `cpus`. Empty (do not bind) where there are fewer CPUs than
/// ranks or fewer in a part than `threads`.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int ranks, int threads);

}  // namespace trireme::launch
