#include "trireme/cli/verbs.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <variant>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/violations.h"
#include "trireme/cli/status.h"
#include "trireme/launch/cores.h"
#include "trireme/launch/environment.h"
#include "trireme/launch/launch.h"
#include "trireme/launch/start_rank.h"
#include "trireme/spec/preflight.h"

namespace trireme::cli {
namespace {

using base::text_of;

int64_t host_memory_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? pages * bytes : 0;
}

void require_program(const std::string& program) {
  if (access(program.c_str(), X_OK) == 0) return;
  throw base::SystemError(text_of("the program of the ranks cannot be run: ", program,
                                  "; build it with `make build`, or install it beside this one"));
}

std::vector<std::string> rank_command(const CommandLine& command, const std::string& rank_program) {
  require_program(rank_program);
  std::vector<std::string> result = {rank_program};
  result.insert(result.end(), command.arguments.begin(), command.arguments.end());
  return result;
}

// All that can be said about a run before a rank starts.
void check_run(const CommandLine& command, int ranks, const std::optional<spec::ModelReader>& own_models) {
  const spec::Config config =
      spec::load_config(config_source(command), ranks, own_models ? *own_models : spec::reference_models());
  base::Violations violations;
  // prove makes one step whatever training.steps says, and an own job need not have a "model" block
  spec::PreflightInputs inputs;
  inputs.needs_steps = command.verb == Verb::Train;
  inputs.needs_model = inputs.needs_steps && !own_models;
  inputs.host_memory_bytes = host_memory_bytes();
  inputs.ranks_on_host = ranks;
  spec::preflight(config, ranks, inputs, violations);
  violations.throw_if_any();

  if (!config.data.path.empty()) {
    if (base::InputFile(config.data.path).size() == 0) {
      throw base::DataError(text_of("the data file is empty: ", config.data.path));
    }
  } else if (command.verb == Verb::Train && std::holds_alternative<spec::Gpt2Spec>(config.model)) {
    throw base::UsageError("no data to train on; use --data FILE");
  }
}

int start_ranks(const CommandLine& command, const std::string& rank_program, int default_ranks,
                const std::optional<spec::ModelReader>& own_models) {
  const auto outer = launch::rank_variables([](const char* name) { return std::getenv(name); });
  if (outer) {
    if (command.ranks && *command.ranks != outer->world_size) {
      throw base::UsageError(text_of("--ranks ", *command.ranks, " is not the number of ranks that ", outer->source,
                                     " started, ", outer->world_size, "; leave it out"));
    }
    launch::become(rank_command(command, rank_program), {});
  }
  launch::LaunchSpec spec;
  spec.ranks = command.ranks.value_or(default_ranks);
  check_run(command, spec.ranks, own_models);
  spec.command = rank_command(command, rank_program);
  spec.threads = command.threads;
  spec.log_dir = command.log_dir;
  spec.prefix_output = !command.json;
  return launch::launch(spec);
}

int check(const CommandLine& command, const std::optional<spec::ModelReader>& own_models) {
  const int ranks = command.ranks.value_or(1);
  const spec::Config config =
      spec::load_config(config_source(command), ranks, own_models ? *own_models : spec::reference_models());
  base::Violations violations;
  spec::PreflightInputs inputs;
  inputs.host_memory_bytes = host_memory_bytes();
  inputs.ranks_on_host = ranks;
  spec::preflight(config, ranks, inputs, violations);
  violations.throw_if_any();

  for (const std::string& note : config.notes) std::cout << note << "\n";
  if (const auto* gpt2 = std::get_if<spec::Gpt2Spec>(&config.model)) {
    std::cout << "model gpt2: " << spec::parameter_count(*gpt2) << " parameters\n";
  } else if (const auto* mlp = std::get_if<spec::MlpSpec>(&config.model)) {
    std::cout << "model mlp: " << spec::parameter_count(*mlp) << " parameters\n";
  }
  if (!command.ranks) std::cout << "assuming 1 rank; use --ranks N for another number\n";
  std::cout << "ok: can run on " << ranks << (ranks == 1 ? " rank" : " ranks") << std::endl;
  if (!std::cout) throw base::SystemError("cannot write to stdout");
  return 0;
}

// Beside MPI the ranks are started by mpirun, whose variables they read as any program's.
int bench(const CommandLine& command, const std::string& rank_program) {
  const int ranks = command.ranks.value_or(2);
  if (ranks < 2) throw base::UsageError(text_of("--ranks ", ranks, " leaves nothing to exchange; use 2 or more"));
  if (command.bench.against_mpi) {
    const bool spare_cores = ranks <= launch::usable_cores();
    std::vector<std::string> mpirun = {"mpirun", "-n", std::to_string(ranks)};
    for (const char* flag : {"--allow-run-as-root", "--bind-to", spare_cores ? "core" : "none"})
      mpirun.emplace_back(flag);
    if (!spare_cores) mpirun.emplace_back("--oversubscribe");
    for (const std::string& word : rank_command(command, rank_program)) mpirun.push_back(word);
    try {
      launch::become(mpirun, {});
    } catch (const launch::StartError&) {
      throw base::SystemError(
          "--against mpi needs mpirun, which is not in PATH; install OpenMPI (Debian: openmpi-bin), or leave mpi out");
    }
  }
  launch::LaunchSpec spec;
  spec.ranks = ranks;
  spec.command = rank_command(command, rank_program);
  spec.threads = 1;
  spec.prefix_output = false;
  return launch::launch(spec);
}

int launch_program(const CommandLine& command) {
  launch::LaunchSpec spec;
  spec.command = command.command;
  spec.ranks = command.ranks.value_or(1);
  spec.threads = command.threads;
  spec.log_dir = command.log_dir;
  spec.bind = command.bind;
  spec.master_port = command.master_port;
  return launch::launch(spec);
}

}  // namespace

int run_verb(const CommandLine& command, const std::string& rank_program,
             const std::optional<spec::ModelReader>& own_models) {
  switch (command.verb) {
    case Verb::Help:
      std::cout << command.text << std::flush;
      return 0;
    case Verb::Check:
      return check(command, own_models);
    case Verb::Launch:
      return launch_program(command);
    case Verb::Train:
      return start_ranks(command, rank_program, 1, own_models);
    case Verb::Prove:
      return start_ranks(command, rank_program, 2, own_models);
    case Verb::Bench:
      return bench(command, rank_program);
    case Verb::Status:
      return print_status(command.files.front(), command.json, command.watch);
    case Verb::Eval:
    case Verb::Sample:
      launch::become(rank_command(command, rank_program), {});
  }
  return 1;
}

std::string program_beside_this(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw base::SystemError(text_of("cannot find this program's own file: ", error.message()));
  return (self.parent_path() / name).string();
}

}  // namespace trireme::cli
