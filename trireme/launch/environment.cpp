#include "trireme/launch/environment.h"

#include <charconv>
#include <climits>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/launch/slurm.h"

namespace trireme::launch {
namespace {

class Environment {
 public:
  explicit Environment(const GetVariable& getenv) : getenv_(getenv) {}

  bool has(const char* name) const { return getenv_(name) != nullptr; }

  std::string text(const char* name) const {
    const char* value = getenv_(name);
    return value ? value : "";
  }

  /// A whole number in [lowest, highest]; UsageError naming variable and value otherwise.
  int number(const char* name, int lowest, int highest = INT_MAX) const {
    const std::string value = text(name);
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || value.empty()) {
      throw base::UsageError(base::text_of(name, "='", value, "' is not a whole number"));
    }
    if (result < lowest) throw base::UsageError(base::text_of(name, "=", result, " is below ", lowest));
    if (result > highest) throw base::UsageError(base::text_of(name, "=", result, " is above ", highest));
    return result;
  }

 private:
  const GetVariable& getenv_;
};

// The first of `names` that is set, or nullptr.
const char* first_set(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (environment.has(name)) return name;
  }
  return nullptr;
}

int parse_port(const Environment& environment) {
  const std::string value = environment.text("MASTER_PORT");
  int port = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), port);
  if (error != std::errc() || end != value.data() + value.size() || port < 1 || port > 65535) {
    throw base::UsageError(base::text_of("MASTER_PORT='", value, "' is not a port number, 1 to 65535"));
  }
  return port;
}

std::string parse_address(const Environment& environment) {
  std::string value = environment.text("MASTER_ADDR");
  if (value.empty()) throw base::UsageError("MASTER_ADDR='' is not the address of rank 0's host");
  return value;
}

struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

// Reads and compares the four numbers; absent local ones mean that all ranks are on this host.
RankVariables numbers(const Environment& environment, const Names& names, std::string source) {
  for (const char* name : {names.rank, names.world_size}) {
    if (!environment.has(name)) {
      const char* other = name == names.rank ? names.world_size : names.rank;
      throw base::UsageError(base::text_of(name, " is not set, but ", other, "=", environment.text(other), " is"));
    }
  }
  RankVariables v;
  v.source = std::move(source);
  v.world_size = environment.number(names.world_size, 1);
  v.rank = environment.number(names.rank, 0);
  if (v.rank >= v.world_size) {
    throw base::UsageError(
        base::text_of(names.rank, "=", v.rank, " is not below ", names.world_size, "=", v.world_size));
  }
  v.local_rank = v.rank;
  v.local_world_size = v.world_size;
  if (environment.has(names.local_world_size)) {
    v.local_world_size = environment.number(names.local_world_size, 1);
    if (v.local_world_size > v.world_size) {
      throw base::UsageError(base::text_of(names.local_world_size, "=", v.local_world_size, " is above ",
                                           names.world_size, "=", v.world_size));
    }
  }
  if (environment.has(names.local_rank)) {
    v.local_rank = environment.number(names.local_rank, 0);
    if (v.local_rank >= v.local_world_size) {
      throw base::UsageError(base::text_of(names.local_rank, "=", v.local_rank, " is not below the ",
                                           v.local_world_size, " ranks of this host"));
    }
  } else if (v.local_world_size < v.world_size) {
    throw base::UsageError(base::text_of(names.local_rank, " is not set, but ", names.local_world_size, "=",
                                         v.local_world_size, " is below ", names.world_size, "=", v.world_size));
  }
  return v;
}

// Below the ephemeral range, above the registered services; equal on all ranks of a job because the id is.
int port_of_job(const std::string& job_id) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (unsigned char c : job_id) hash = (hash ^ c) * 1099511628211ull;
  return 20000 + static_cast<int>(hash % 12000);
}

void find_master(const Environment& environment, RankVariables& v, const std::string& other_address,
                 const std::string& job_id) {
  if (environment.has("MASTER_ADDR")) {
    v.master_addr = parse_address(environment);
  } else if (v.local_world_size == v.world_size) {
    v.master_addr = "127.0.0.1";
  } else if (!other_address.empty()) {
    v.master_addr = other_address;
  } else {
    throw base::UsageError(base::text_of(v.source, " started ", v.world_size, " ranks on several hosts (",
                                         v.local_world_size,
                                         " here) and MASTER_ADDR is not set; set it to the host of rank 0"));
  }
  v.master_port = environment.has("MASTER_PORT") ? parse_port(environment) : port_of_job(v.source + job_id);
}

RankVariables from_torchrun(const Environment& environment) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (environment.has(name)) continue;
    const char* other =
        first_set(environment, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
    throw base::UsageError(base::text_of(name, " is not set, but ", other, "=", environment.text(other),
                                         " is; a launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
                                         "together, unset them all to run without one"));
  }
  RankVariables v = numbers(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, "torchrun");
  v.master_addr = parse_address(environment);
  v.master_port = parse_port(environment);
  return v;
}

RankVariables from_openmpi(const Environment& environment) {
  RankVariables v = numbers(
      environment,
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      "OpenMPI");
  find_master(environment, v, "", environment.text("PMIX_NAMESPACE") + environment.text("OMPI_MCA_ess_base_jobid"));
  return v;
}

RankVariables from_pmi(const Environment& environment) {
  RankVariables v = numbers(environment, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, "MPICH");
  find_master(environment, v, "", environment.text("PMI_JOBID") + environment.text("PMI_PORT"));
  return v;
}

// Node of this process: as Slurm says, or else as its default distribution (tasks in blocks) has it.
size_t node_of(const Environment& environment, const std::vector<int>& tasks, int rank) {
  if (environment.has("SLURM_NODEID")) {
    return static_cast<size_t>(environment.number("SLURM_NODEID", 0, static_cast<int>(tasks.size()) - 1));
  }
  size_t node = 0;
  for (int first = 0; node + 1 < tasks.size() && rank >= first + tasks[node]; ++node) first += tasks[node];
  return node;
}

RankVariables from_slurm_step(const Environment& environment) {
  RankVariables v = numbers(environment, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr}, "Slurm");
  const char* list = "SLURM_STEP_TASKS_PER_NODE";
  if (environment.has(list)) {
    const std::vector<int> tasks = parse_tasks_per_node(environment.text(list), list);
    int64_t sum = 0;
    for (int count : tasks) sum += count;
    if (sum != v.world_size) {
      throw base::UsageError(base::text_of(list, "=", environment.text(list), " has ", sum,
                                           " tasks, SLURM_STEP_NUM_TASKS=", v.world_size));
    }
    v.local_world_size = tasks[node_of(environment, tasks, v.rank)];
  } else if (environment.has("SLURM_STEP_NUM_NODES") && environment.number("SLURM_STEP_NUM_NODES", 1) > 1) {
    throw base::UsageError(base::text_of(
        list, " is not set, but SLURM_STEP_NUM_NODES=", environment.text("SLURM_STEP_NUM_NODES"), " is above 1"));
  }
  if (v.local_rank >= v.local_world_size) {
    throw base::UsageError(base::text_of("SLURM_LOCALID=", v.local_rank, " is not below the ", v.local_world_size,
                                         " tasks of this node in ", list, "=", environment.text(list)));
  }
  find_master(environment, v, first_host(environment.text("SLURM_STEP_NODELIST")),
              environment.text("SLURM_JOB_ID") + "." + environment.text("SLURM_STEP_ID"));
  return v;
}

}  // namespace

std::optional<RankVariables> rank_variables(const GetVariable& getenv) {
  // numbers() asks with nullptr for a variable that a launcher does not have
  const GetVariable guarded = [&](const char* name) { return name ? getenv(name) : nullptr; };
  const Environment environment(guarded);

  if (first_set(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})) {
    return from_torchrun(environment);
  }
  if (first_set(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) return from_openmpi(environment);
  const bool pmi = first_set(environment, {"PMI_RANK", "PMI_SIZE"}) != nullptr;
  // `srun --mpi=pmi2` sets PMI_RANK too and only Slurm's step then knows the nodes; Hydra under Slurm starts one proxy
  // a node by a step of its own, and only Hydra's numbers are the ranks'
  if (pmi && environment.has("MPI_LOCALRANKID")) return from_pmi(environment);
  if (environment.has("SLURM_PROCID") && environment.has("SLURM_STEP_NUM_TASKS") &&
      environment.number("SLURM_STEP_NUM_TASKS", 1) > 1) {
    return from_slurm_step(environment);
  }
  if (pmi) return from_pmi(environment);
  if (first_set(environment, {"MASTER_ADDR", "MASTER_PORT"})) return from_torchrun(environment);
  return std::nullopt;
}

}  // namespace trireme::launch
