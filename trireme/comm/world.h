#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/comm/group.h"
#include "trireme/shm/status_writer.h"

namespace c10d {
class Store;
}

namespace trireme::comm {

struct WorldOptions {
  /// "auto": shm if all ranks are on one host, else gloo. "shm", "gloo".
  std::string backend = "auto";
  /// Of every wait once the first step is done; see set_timeout.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Until set_timeout is called: start-up and the first step.
  std::chrono::milliseconds first_step_timeout = std::chrono::minutes(30);
  /// A file as `trireme bench comm --table` prints it; it counts on rank 0. Empty: $TRIREME_ALGORITHM_TABLE, and where
  /// that is empty too, the table measured once for this processor and number of ranks (shm/tuned_table.h). shm only.
  std::string algorithm_table = {};
};

/// Where this process stands among the ranks of the run: what the launcher said.
struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
};

/// All ranks of the run. The only code that reads the environment; everything below gets groups. A copyable handle: the
/// transports end with the last copy. Construction also installs Trireme's autograd engine (see engine.h).
class World {
 public:
  /// From torchrun's, OpenMPI's, MPICH's or Slurm's variables (launch/environment.h); none set: one rank.
  /// Throws base::UsageError for contradictory variables, base::CommError if the ranks do not meet in time.
  static World from_environment(const WorldOptions& options = {});

  /// For tests and embedding: ranks meet in `store`.
  static World from_store(const Place& place, c10::intrusive_ptr<c10d::Store> store, const WorldOptions& options = {});

  int rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  const std::string& backend() const;

  /// What peers' errors and `trireme status` show of this rank: the step, 0 before the first, and, while the returned
  /// object lives, the phase of it ("forward"). Peers wait beyond their deadline for a phase that may be long.
  void set_step(int64_t step) const;
  [[nodiscard]] shm::StatusPhase phase(std::string_view name, bool may_be_long = false) const;

  /// {"table": which algorithm serves which operation and size, "origin": where that comes from}; null without shm.
  const base::Json& algorithms() const;

  /// The group of all ranks.
  Group all() const;

  /// A group of some ranks (world ranks, any order, no repeats). Only its members call; the n-th group of the same list
  /// on one rank is the n-th on the others, in whatever order different lists are made.
  Group group(const std::vector<int>& ranks) const;

  /// The deadline of every later wait in every group.
  void set_timeout(std::chrono::milliseconds timeout) const;

 private:
  static World make(const Place& place, c10::intrusive_ptr<c10d::Store> store, const WorldOptions& options,
                    std::shared_ptr<shm::StatusBoard> board);
  explicit World(std::shared_ptr<struct WorldState> state) : state_(std::move(state)) {}
  std::shared_ptr<struct WorldState> state_;
  std::shared_ptr<struct GroupState> all_;
};

}  // namespace trireme::comm
