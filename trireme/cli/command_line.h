#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cli/bench_request.h"
#include "trireme/spec/config.h"

// What was typed, as data. Also the command line of any program made with trireme::run().
namespace trireme::cli {

enum class Verb { Help, Train, Launch, Check, Prove, Eval, Sample, Bench, Status };

struct CommandLine {
  Verb verb = Verb::Help;
  std::string text;                    ///< Help: what to print on stdout (--help, --version)
  std::vector<std::string> arguments;  ///< all of them as given, without the program's name

  std::vector<std::string>
      files;  ///< train, check, prove: configuration; eval, sample: one run, checkpoint or export; status: a run
  std::vector<std::string> sets;  ///< --set a.b=c
  std::optional<int> ranks;       ///< --ranks, launch's -n
  int threads = 0;                ///< a rank; 0: not given
  std::string data;               ///< empty: not given; so are the next three
  std::string out;
  std::string backend;
  std::string log_dir;
  std::optional<int64_t> steps;  ///< in all, not further ones
  bool resume = false;
  bool overwrite = false;
  bool json = false;

  std::string prompt;  ///< sample
  int64_t length = 256;
  double temperature = 0.8;
  int64_t seed = 1234;

  BenchRequest bench;

  bool watch = false;  ///< status

  std::vector<std::string> command;  ///< launch: program and arguments
  bool bind = true;
  int master_port = 0;  ///< 0: a free one
};

/// `program_name` is what the help calls the program. Throws base::UsageError, one line that names the flag or value
/// and the nearest known one.
CommandLine parse_command_line(int argc, char** argv, const std::string& program_name);

/// The configuration that train, check and prove mean: the files, then --set, then the flags --data, --steps and
/// --backend as the keys data.path, training.steps and communication.backend.
spec::ConfigSource config_source(const CommandLine& command);

}  // namespace trireme::cli
