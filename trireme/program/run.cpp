#include "trireme/program/run.h"

#include <ATen/Parallel.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/cli/command_line.h"
#include "trireme/cli/guarded.h"
#include "trireme/cli/verbs.h"
#include "trireme/comm/world.h"
#include "trireme/comm_bench/bench_comm.h"
#include "trireme/launch/environment.h"
#include "trireme/launch/launch.h"
#include "trireme/launch/threads.h"
#include "trireme/model/models.h"
#include "trireme/program/stored_model.h"
#include "trireme/train/prove.h"
#include "trireme/train/run.h"
#include "trireme/train/sample.h"

namespace trireme::program {
namespace fs = std::filesystem;
namespace {

using cli::CommandLine;
using cli::Verb;

// What differs between a program of its own and the reference models.
struct Flavour {
  JobFactory job;
  JobFactory job_without_data;  // for prove
  std::optional<spec::ModelReader> models;
};

std::optional<launch::RankVariables> started_as_rank() {
  return launch::rank_variables([](const char* name) { return std::getenv(name); });
}

void settle_threads(const CommandLine& command, int ranks_here, int rank) {
  const auto choice = launch::rank_threads_here(ranks_here, command.threads);
  if (rank == 0 && !choice.warning.empty()) base::log_warning(choice.warning);
  at::set_num_threads(choice.threads);
}

comm::World join_world(const spec::Config& config) {
  const auto milliseconds = [](auto duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
  };
  return comm::World::from_environment({.backend = config.communication.backend,
                                        .timeout = milliseconds(config.communication.timeout),
                                        .first_step_timeout = milliseconds(config.communication.first_step_timeout),
                                        .algorithm_table = config.communication.algorithm_table});
}

std::string decode_bytes(const std::vector<int64_t>& tokens) {
  std::string text;
  for (auto token : tokens) text += static_cast<char>(token);
  return text;
}

// the text model of the reference models has a token a byte
bool is_byte_model(const spec::Config& config) {
  const auto* gpt2 = std::get_if<spec::Gpt2Spec>(&config.model);
  return gpt2 && gpt2->vocab_size == 256;
}

std::string shell_word(const std::string& word) {
  if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:") == word.npos)
    return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool is_rank_program(const fs::path& path) {
  return path.filename() == "trireme-rank";
}

// What was typed, without what says where the run lies and how it starts.
std::string command_to_repeat(const CommandLine& command) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path program = is_rank_program(self) ? self.parent_path() / "trireme" : self;
  const fs::path from_here = program.lexically_proximate(fs::current_path());
  std::string text = shell_word(*from_here.begin() == ".." ? program : from_here);
  for (auto word = command.arguments.begin(); word != command.arguments.end(); ++word) {
    if (*word == "--resume" || *word == "--overwrite" || word->starts_with("--out=")) continue;
    if (*word == "--out") {
      ++word;
      continue;
    }
    text += ' ' + shell_word(*word);
  }
  return text;
}

int train(const CommandLine& command, const spec::Config& config, const Flavour& flavour, const comm::World& world) {
  train::RunRequest request;
  request.folder = {command.out, fs::path(command.files.front()).stem().string(), command.resume, command.overwrite};
  request.resume_command = command_to_repeat(command);
  request.terminal_columns = launch::terminal_columns();
  if (const char* launcher = std::getenv(launch::launcher_variable)) request.launcher = std::atoi(launcher);
  if (is_byte_model(config)) request.decode = decode_bytes;
  return train::run_training(flavour.job(config), config, request, world);
}

void require_written() {
  if (!std::cout) throw base::SystemError("cannot write to stdout; is the disk full, or the reader gone?");
}

int prove(const CommandLine& command, const spec::Config& config, const Flavour& flavour, const comm::World& world) {
  auto training_only = config;  // a proof validates nothing
  training_only.data.validation_fraction = 0;
  const auto job = config.data.path.empty() ? flavour.job_without_data(config) : flavour.job(training_only);
  const auto proof = train::prove(job, config, world);
  if (world.rank() == 0) std::cout << (command.json ? proof.json().dump(2) : proof.text()) << std::endl;
  if (world.rank() == 0) require_written();
  return proof.equal() ? 0 : 1;
}

int become_rank(const CommandLine& command, const Flavour& flavour, const launch::RankVariables& place) {
  // Trireme's own launcher puts the prefix before every line
  if (place.world_size > 1 && !std::getenv(launch::launcher_variable))
    base::set_log_prefix(base::text_of("[rank ", place.rank, "] "));
  settle_threads(command, place.local_world_size, place.rank);
  const auto config = spec::load_config(cli::config_source(command), place.world_size,
                                        flavour.models ? *flavour.models : spec::reference_models());
  base::set_log_level(base::log_level_named(config.logging.level));
  const auto world = join_world(config);
  return command.verb == Verb::Train ? train(command, config, flavour, world) : prove(command, config, flavour, world);
}

int eval(const CommandLine& command, const Flavour& flavour) {
  settle_threads(command, 1, 0);
  const auto result = evaluate_stored(open_stored(command.files.front(), flavour.job), command.data);
  if (command.json)
    std::cout << base::Json{{"loss", result.loss()}, {"tokens", result.items}}.dump() << std::endl;
  else
    std::cout << "loss " << result.loss() << " over " << result.items << " tokens" << std::endl;
  require_written();
  return 0;
}

int sample(const CommandLine& command, const Flavour& flavour) {
  settle_threads(command, 1, 0);
  auto stored = open_stored(command.files.front(), flavour.job);
  if (!stored.gpt2) throw base::UsageError("sample needs a gpt2 model, " + command.files.front() + " holds another");
  if (stored.gpt2->vocab_size != 256)
    throw base::UsageError(base::text_of("sample prints bytes, the vocabulary of ", command.files.front(), " has ",
                                         stored.gpt2->vocab_size, " tokens; a tokenizer is not built yet"));
  const std::string prompt = command.prompt.empty() ? "\n" : command.prompt;
  train::SampleRequest request{.prompt = {},
                               .length = command.length,
                               .context = stored.gpt2->n_positions,
                               .temperature = command.temperature,
                               .seed = static_cast<uint64_t>(command.seed)};
  for (unsigned char c : prompt) request.prompt.push_back(c);
  std::cout << command.prompt << decode_bytes(train::sample(*stored.model, request)) << std::endl;
  require_written();
  return 0;
}

int run_flavour(int argc, char** argv, const Flavour& flavour) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is then an error of the write, with its words
  return cli::guarded([&] {
    const std::string program = is_rank_program(argv[0]) ? "trireme" : argv[0];
    const auto command = cli::parse_command_line(argc, argv, program);
    switch (command.verb) {
      case Verb::Eval:
        return eval(command, flavour);
      case Verb::Sample:
        return sample(command, flavour);
      case Verb::Train:
      case Verb::Prove:
        if (const auto place = started_as_rank()) return become_rank(command, flavour, *place);
        break;
      case Verb::Bench:
        if (const auto place = started_as_rank()) {
          comm_bench::run_bench_comm(command.bench, command.json, *place);
          return 0;
        }
        break;
      case Verb::Help:
      case Verb::Check:
      case Verb::Launch:
      case Verb::Status:
        break;
    }
    return cli::run_verb(command, fs::read_symlink("/proc/self/exe").string(), flavour.models);
  });
}

}  // namespace

int run(int argc, char** argv, const JobFactory& job, const std::function<void(base::Reader&)>& read_model) {
  return run_flavour(argc, argv, {job, job, spec::own_model(read_model)});
}

int run_reference_models(int argc, char** argv) {
  const auto without_data = [](const spec::Config& config) {
    return std::holds_alternative<spec::Gpt2Spec>(config.model) ? model::job_on_random_tokens(config)
                                                                : model::job_for(config);
  };
  return run_flavour(argc, argv, {model::job_for, without_data, std::nullopt});
}

}  // namespace trireme::program
