#include "trireme/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/names.h"
#include "trireme/cli/help.h"

namespace trireme::cli {
namespace {

using base::text_of;
using base::UsageError;

// Numbers are read by us and not by CLI11, whose messages name neither the range nor, at times, the value.
struct NumberTexts {
  std::string ranks, threads, steps, length, temperature, seed, master_port;
};

int64_t whole_number(const std::string& flag, const std::string& text, int64_t lowest, int64_t highest) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (!whole || error == std::errc::invalid_argument) {
    throw UsageError(text_of(flag, " ", base::quoted(text), " is not a whole number"));
  }
  if (error != std::errc() || value < lowest || value > highest) {
    throw UsageError(text_of(flag, " ", text, " is not in ", lowest, " to ", highest));
  }
  return value;
}

double number(const std::string& flag, const std::string& text, double lowest, double highest) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw UsageError(text_of(flag, " ", base::quoted(text), " is not a number"));
  }
  if (value < lowest || value > highest) {
    throw UsageError(text_of(flag, " ", text, " is not in ", lowest, " to ", highest));
  }
  return value;
}

void add_flags(CLI::App& app, CommandLine& c, NumberTexts& n, BenchTexts& bench) {
  const auto text = [&](const char* name, std::string& into, const char* type, const char* help) {
    return app.add_option(name, into, help)->type_name(type);
  };
  const auto files = [&](const char* help) {
    app.add_option("FILE", c.files, help)->type_name("")->required();
    app.add_option("--set", c.sets, "override a key: --set optimizer.params.lr=1e-3 (repeatable)")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  };
  const auto folder = [&] {
    app.add_option("FOLDER", c.files, "a run folder, a checkpoint or an export")->type_name("")->required();
  };
  const char* configuration = "configuration, JSON with DeepSpeed's keys; later files win over earlier ones";
  switch (c.verb) {
    case Verb::Train:
      files(configuration);
      text("--data", c.data, "FILE", "what to train on: text (a byte a token) or .bin tokens");
      text("--ranks", n.ranks, "N", "processes to start on this host (1)");
      text("--steps", n.steps, "N", "optimizer steps in all");
      text("--out", c.out, "FOLDER", "run folder (runs/<config name>-<n>)");
      app.add_flag("--resume", c.resume, "continue the newest whole checkpoint in --out");
      app.add_flag("--overwrite", c.overwrite, "replace what is in --out");
      text("--backend", c.backend, "NAME", "how ranks talk: auto, shm, gloo (auto)");
      text("--threads", n.threads, "N", "threads of a rank (cores / ranks, or OMP_NUM_THREADS)");
      text("--log-dir", c.log_dir, "FOLDER", "also write each rank's output to FOLDER/rank_N.log");
      break;
    case Verb::Check:
      files(configuration);
      text("--ranks", n.ranks, "N", "processes that it would run on (1)");
      break;
    case Verb::Prove:
      files(configuration);
      text("--ranks", n.ranks, "N", "processes of the parallel run (2)");
      text("--data", c.data, "FILE", "take the batch from here (random tokens from the seed)");
      text("--threads", n.threads, "N", "threads of a rank (cores / ranks, or OMP_NUM_THREADS)");
      app.add_flag("--json", c.json, "print the result as JSON, alone on stdout");
      break;
    case Verb::Launch:
      text("-n,--ranks", n.ranks, "N", "processes to start (1)");
      text("--threads", n.threads, "N", "OMP_NUM_THREADS of a rank (cores / ranks, or as it is set)");
      text("--log-dir", c.log_dir, "FOLDER", "also write each rank's output to FOLDER/rank_N.log");
      app.add_flag("--no-bind{false}", c.bind, "do not bind ranks to CPUs of their own");
      text("--master-port", n.master_port, "PORT", "MASTER_PORT of the ranks (a free one)");
      break;
    case Verb::Eval:
      folder();
      text("--data", c.data, "FILE", "what to evaluate on")->required();
      app.add_flag("--json", c.json, "print {\"loss\", \"tokens\"}, alone on stdout");
      text("--threads", n.threads, "N", "threads (cores, or OMP_NUM_THREADS)");
      break;
    case Verb::Sample:
      folder();
      text("--prompt", c.prompt, "TEXT", "what to continue (a newline)");
      text("--length", n.length, "N", "tokens to add (256)");
      text("--temperature", n.temperature, "T", "0: always the likeliest token (0.8)");
      text("--seed", n.seed, "S", "of the random choices (1234)");
      text("--threads", n.threads, "N", "threads (cores, or OMP_NUM_THREADS)");
      break;
    case Verb::Bench:
      app.add_option("WHAT", bench.what, "comm: collectives and messages among the ranks")->type_name("")->required();
      text("--ops", bench.ops, "LIST",
           "all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, send_recv, barrier (the first "
           "three)");
      text("--sizes", bench.sizes, "LIST", "of the full buffer (1KiB,64KiB,1MiB,16MiB,64MiB)");
      text("--ranks", n.ranks, "N", "processes on this host (2)");
      text("--against", bench.against, "LIST", "opponents in the same run: mpi, gloo (none)");
      text("--memory", bench.memory, "KIND", "arena: memory that all ranks map; private: ordinary memory (arena)");
      text("--dtype", bench.dtype, "TYPE", "fp32, fp16, bf16 (fp32)");
      app.add_flag("--table", c.bench.table, "print the table of algorithms for this machine and measure nothing else");
      app.add_flag("--json", c.json, "print one JSON document, alone on stdout");
      break;
    case Verb::Status:
      app.add_option("RUN", c.files, "a run folder, or the process of a launcher or of rank 0")
          ->type_name("")
          ->required();
      app.add_flag("--json", c.json, "print one JSON document, alone on stdout");
      app.add_flag("--watch", c.watch, "again each second until the run ends");
      break;
    case Verb::Help:
      break;
  }
}

void read_numbers(const NumberTexts& n, CommandLine& c) {
  constexpr int64_t many = int64_t{1} << 53;  // what JSON numbers hold exactly
  if (!n.ranks.empty()) c.ranks = static_cast<int>(whole_number("--ranks", n.ranks, 1, 1024));
  if (!n.threads.empty()) c.threads = static_cast<int>(whole_number("--threads", n.threads, 1, 4096));
  if (!n.steps.empty()) c.steps = whole_number("--steps", n.steps, 1, many);
  if (!n.length.empty()) c.length = whole_number("--length", n.length, 1, int64_t{1} << 30);
  if (!n.temperature.empty()) c.temperature = number("--temperature", n.temperature, 0, 100);
  if (!n.seed.empty()) c.seed = whole_number("--seed", n.seed, 0, many);
  if (!n.master_port.empty()) c.master_port = static_cast<int>(whole_number("--master-port", n.master_port, 1, 65535));
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

void refuse_extras(const CLI::App& app, const std::vector<std::string>& extras, std::string_view verb) {
  for (const std::string& extra : extras) {
    if (extra.size() > 1 && extra[0] == '-') {
      const std::string flag = extra.substr(0, extra.find('='));
      throw UsageError(
          text_of("unknown flag ", base::quoted(flag), " of ", verb, base::did_you_mean(flag, flags_of(app))));
    }
  }
  if (!extras.empty()) throw UsageError(text_of(verb, " takes no further argument ", base::quoted(extras.front())));
}

const VerbHelp& find_verb(const std::string& name) {
  std::vector<std::string> known;
  for (const VerbHelp& verb : built_verbs()) {
    if (verb.name == name) return verb;
    known.emplace_back(verb.name);
  }
  for (std::string_view verb : later_verbs()) {
    if (verb == name) throw UsageError(text_of("'", name, "' is not built yet"));
    known.emplace_back(verb);
  }
  const char* kind = name.starts_with('-') ? "unknown flag " : "unknown verb ";
  const std::string nearest = base::did_you_mean(name, known);
  throw UsageError(text_of(kind, base::quoted(name),
                           nearest.empty() ? "; train, launch, check, prove, eval, sample, bench are known" : nearest));
}

// Everything behind "--", or behind the first word that is no flag, is the program of `launch` and its arguments.
std::vector<std::string> take_command(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> command;
  if (dashes != arguments.end()) {
    command.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  return command;
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv, const std::string& program_name) {
  CommandLine c;
  for (int i = 1; i < argc; ++i) c.arguments.emplace_back(argv[i]);
  if (c.arguments.empty()) {
    throw UsageError(text_of("no verb is given; try ", program_name, " --help"));
  }
  const std::string& first = c.arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    c.text = overview(program_name);
    return c;
  }
  if (first == "--version") {
    c.text = version_text();
    return c;
  }
  const VerbHelp& help = find_verb(first);
  c.verb = help.verb;

  CLI::App app(std::string(help.sentence), text_of(program_name, " ", help.name));
  app.footer(text_of("Example: ", program_name, " ", help.example));
  app.set_help_flag("-h,--help", "show this");
  app.allow_extras();
  if (c.verb == Verb::Launch) {
    app.prefix_command();
    app.footer(
        text_of("Behind -- comes the program, looked up in PATH, with its arguments.\n"
                "Example: ",
                program_name, " ", help.example));
  }
  NumberTexts numbers;
  BenchTexts bench;
  add_flags(app, c, numbers, bench);

  std::vector<std::string> rest(c.arguments.begin() + 1, c.arguments.end());
  if (c.verb == Verb::Launch) c.command = take_command(rest);
  std::reverse(rest.begin(), rest.end());  // as CLI11 wants it
  try {
    app.parse(rest);
  } catch (const CLI::CallForHelp&) {
    c.verb = Verb::Help;
    c.text = app.help();
    return c;
  } catch (const CLI::ParseError& error) {
    throw UsageError(text_of(one_line(error.what()), "; try ", program_name, " ", help.name, " --help"));
  }

  const std::vector<std::string> extras = app.remaining();
  const bool extras_are_command = c.verb == Verb::Launch && c.command.empty() && !extras.empty() && extras[0][0] != '-';
  if (extras_are_command) {
    c.command = extras;
  } else {
    refuse_extras(app, extras, help.name);
  }
  if (c.verb == Verb::Launch && c.command.empty()) {
    throw UsageError(text_of("launch needs a program; for example ", program_name, " ", help.example));
  }
  const bool one_only = c.verb == Verb::Eval || c.verb == Verb::Sample || c.verb == Verb::Status;
  if (one_only && c.files.size() > 1) {
    throw UsageError(text_of(help.name, " takes one ", c.verb == Verb::Status ? "run" : "folder", ", not also ",
                             base::quoted(c.files[1])));
  }
  read_numbers(numbers, c);
  if (c.verb == Verb::Bench) {
    const bool table = c.bench.table;
    c.bench = parse_bench(bench);
    c.bench.table = table;
    for (const std::string* other : {&bench.ops, &bench.sizes, &bench.dtype, &bench.memory, &bench.against}) {
      if (table && !other->empty()) {
        throw UsageError(text_of("--table prints a table and measures nothing; leave out ", base::quoted(*other)));
      }
    }
  }
  if (c.resume && c.overwrite) throw UsageError("--resume and --overwrite exclude each other");
  return c;
}

spec::ConfigSource config_source(const CommandLine& command) {
  spec::ConfigSource source{command.files, command.sets};
  // a path such as "123" must stay text; what is no UTF-8 cannot be JSON and is taken as it is
  const auto as_text = [](const std::string& value) {
    try {
      return base::Json(value).dump();
    } catch (const base::Json::exception&) {
      return value;
    }
  };
  if (!command.data.empty()) source.sets.push_back("data.path=" + as_text(command.data));
  if (!command.backend.empty()) source.sets.push_back("communication.backend=" + as_text(command.backend));
  if (command.steps) source.sets.push_back(text_of("training.steps=", *command.steps));
  return source;
}

}  // namespace trireme::cli
