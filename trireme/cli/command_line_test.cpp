#include "trireme/cli/command_line.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/cli/help.h"

namespace trireme::cli {
namespace {

using Words = std::vector<std::string>;

CommandLine parse(Words words) {
  words.insert(words.begin(), "trireme");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return parse_command_line(static_cast<int>(words.size()), argv.data(), "trireme");
}

std::string error_of(const Words& words) {
  try {
    parse(words);
  } catch (const base::UsageError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  return "no UsageError";
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(CommandLine, train_with_every_flag) {
  const Words words = {"train", "a.json",    "b.json", "--data",    "t.txt", "--ranks", "2",   "--steps",
                       "100",   "--out",     "runs/x", "--set",     "a.b=1", "--set",   "c=2", "--backend",
                       "gloo",  "--threads", "3",      "--log-dir", "logs",  "--resume"};
  const CommandLine c = parse(words);
  EXPECT_EQ(c.verb, Verb::Train);
  EXPECT_EQ(c.arguments, words);
  EXPECT_EQ(c.files, (Words{"a.json", "b.json"}));
  EXPECT_EQ(c.sets, (Words{"a.b=1", "c=2"}));
  EXPECT_EQ(c.data, "t.txt");
  EXPECT_EQ(c.ranks, 2);
  EXPECT_EQ(c.steps, 100);
  EXPECT_EQ(c.out, "runs/x");
  EXPECT_EQ(c.backend, "gloo");
  EXPECT_EQ(c.threads, 3);
  EXPECT_EQ(c.log_dir, "logs");
  EXPECT_TRUE(c.resume);
  EXPECT_FALSE(c.overwrite);
}

TEST(CommandLine, a_flag_with_equals_and_files_after_flags) {
  const CommandLine c = parse({"train", "--ranks=4", "--set", "a=1", "gpt.json", "--overwrite"});
  EXPECT_EQ(c.ranks, 4);
  EXPECT_EQ(c.sets, Words{"a=1"});
  EXPECT_EQ(c.files, Words{"gpt.json"});
  EXPECT_TRUE(c.overwrite);
}

TEST(CommandLine, what_is_not_given_stays_open) {
  const CommandLine c = parse({"train", "a.json"});
  EXPECT_FALSE(c.ranks);
  EXPECT_FALSE(c.steps);
  EXPECT_EQ(c.threads, 0);
  EXPECT_EQ(c.data, "");
}

TEST(CommandLine, the_other_verbs) {
  const CommandLine check = parse({"check", "a.json", "--ranks", "8"});
  EXPECT_EQ(check.verb, Verb::Check);
  EXPECT_EQ(check.ranks, 8);
  const CommandLine prove = parse({"prove", "a.json", "--ranks", "2", "--data", "t", "--json"});
  EXPECT_EQ(prove.verb, Verb::Prove);
  EXPECT_TRUE(prove.json);
  const CommandLine eval = parse({"eval", "folder", "--data", "t", "--json"});
  EXPECT_EQ(eval.verb, Verb::Eval);
  EXPECT_EQ(eval.files, Words{"folder"});
  EXPECT_EQ(eval.data, "t");
  const CommandLine sample =
      parse({"sample", "folder", "--prompt", "-- In the", "--length", "20", "--temperature", "0.5", "--seed", "7"});
  EXPECT_EQ(sample.verb, Verb::Sample);
  EXPECT_EQ(sample.prompt, "-- In the");
  EXPECT_EQ(sample.length, 20);
  EXPECT_EQ(sample.temperature, 0.5);
  EXPECT_EQ(sample.seed, 7);
}

TEST(CommandLine, launch_takes_a_program) {
  const CommandLine c =
      parse({"launch", "-n", "4", "--no-bind", "--master-port", "29501", "--", "prog", "-n", "--help"});
  EXPECT_EQ(c.verb, Verb::Launch);
  EXPECT_EQ(c.ranks, 4);
  EXPECT_FALSE(c.bind);
  EXPECT_EQ(c.master_port, 29501);
  EXPECT_EQ(c.command, (Words{"prog", "-n", "--help"}));
  EXPECT_EQ(parse({"launch", "-n", "2", "prog", "--flag", "x"}).command, (Words{"prog", "--flag", "x"}));
  EXPECT_TRUE(parse({"launch", "--", "prog"}).bind);
  expect_in(error_of({"launch", "-n", "2"}), "launch needs a program");
  expect_in(error_of({"launch", "-n", "2", "--"}), "launch needs a program");
  expect_in(error_of({"launch", "--no-bnd", "--", "x"}), "did you mean '--no-bind'");
  expect_in(error_of({"launch", "stray", "--", "x"}), "'stray'");
}

TEST(CommandLine, wrong_words_name_the_nearest) {
  expect_in(error_of({"trian"}), "unknown verb 'trian'; did you mean 'train'?");
  expect_in(error_of({"xyzzy"}), "unknown verb 'xyzzy'");
  expect_in(error_of({"--verion"}), "unknown flag '--verion'");
  expect_in(error_of({"train", "a.json", "--stepz", "3"}), "unknown flag '--stepz' of train; did you mean '--steps'?");
  expect_in(error_of({"train", "a.json", "--stepz=3"}), "unknown flag '--stepz' of train; did you mean '--steps'?");
  expect_in(error_of({"check", "a.json", "--data", "x"}), "unknown flag '--data' of check");
  expect_in(error_of({"eval", "a", "b", "--data", "x"}), "'b'");
}

TEST(CommandLine, wrong_values_are_named) {
  EXPECT_EQ(error_of({"train", "a", "--ranks", "two"}), "--ranks 'two' is not a whole number");
  EXPECT_EQ(error_of({"train", "a", "--ranks", "0"}), "--ranks 0 is not in 1 to 1024");
  EXPECT_EQ(error_of({"train", "a", "--ranks=-1"}), "--ranks -1 is not in 1 to 1024");
  EXPECT_EQ(error_of({"train", "a", "--ranks", "1.5"}), "--ranks '1.5' is not a whole number");
  EXPECT_EQ(error_of({"train", "a", "--ranks", "99999999999999999999"}),
            "--ranks 99999999999999999999 is not in 1 to 1024");
  EXPECT_EQ(error_of({"train", "a", "--steps", "0"}), "--steps 0 is not in 1 to 9007199254740992");
  EXPECT_EQ(error_of({"sample", "a", "--temperature", "hot"}), "--temperature 'hot' is not a number");
  EXPECT_EQ(error_of({"sample", "a", "--temperature", "nan"}), "--temperature 'nan' is not a number");
  EXPECT_EQ(error_of({"train", "a", "--resume", "--overwrite"}), "--resume and --overwrite exclude each other");
  expect_in(error_of({"train", "a", "--steps"}), "--steps");
  expect_in(error_of({"train", "a", "--steps", "1", "--steps", "2"}), "--steps");
  expect_in(error_of({"train"}), "FILE is required");
  expect_in(error_of({"eval", "a"}), "--data is required");
  expect_in(error_of({}), "no verb is given");
}

TEST(CommandLine, verbs_of_the_design_that_are_not_built) {
  for (const char* verb : {"plan", "tune", "convert", "doctor", "report"}) {
    EXPECT_EQ(error_of({verb, "x"}), std::string("'") + verb + "' is not built yet");
  }
}

TEST(CommandLine, bench_comm) {
  const BenchRequest all = parse({"bench", "comm"}).bench;
  EXPECT_EQ(all.ops, (std::vector{BenchOp::AllReduce, BenchOp::ReduceScatter, BenchOp::AllGather}));
  EXPECT_EQ(all.sizes.size(), 5u);
  EXPECT_FALSE(all.against_mpi || all.against_gloo || all.private_memory || all.table);
  const CommandLine c = parse({"bench", "comm", "--ops", "send_recv,barrier", "--sizes", "1KiB,2MiB", "--against",
                               "mpi,gloo", "--memory", "private", "--ranks", "4", "--json"});
  EXPECT_EQ(c.bench.ops, (std::vector{BenchOp::SendRecv, BenchOp::Barrier}));
  EXPECT_EQ(c.bench.sizes, (std::vector<int64_t>{1024, 2 << 20}));
  EXPECT_TRUE(c.bench.against_mpi && c.bench.against_gloo && c.bench.private_memory && c.json);
  EXPECT_EQ(c.ranks, 4);
  EXPECT_TRUE(parse({"bench", "comm", "--table"}).bench.table);
  expect_in(error_of({"bench"}), "WHAT is required");
  expect_in(error_of({"bench", "com"}), "bench 'com' is not known; did you mean 'comm'?");
  expect_in(error_of({"bench", "comm", "--ops", "all_reduse"}),
            "--ops 'all_reduse' is not known; did you mean 'all_reduce'?");
  expect_in(error_of({"bench", "comm", "--ops", "all_reduce,"}), "--ops 'all_reduce,' has an empty entry");
  EXPECT_EQ(error_of({"bench", "comm", "--sizes", "1Kob"}), "--sizes '1Kob' is no size; write 64KiB or 1MiB");
  EXPECT_EQ(error_of({"bench", "comm", "--sizes", "2"}), "--sizes 2 is not in 4 B to 1 TiB");
  EXPECT_EQ(error_of({"bench", "comm", "--against", "ucx"}), "--against 'ucx' is not known; use mpi, gloo");
  expect_in(error_of({"bench", "comm", "--dtype", "bf16", "--against", "mpi"}), "--against mpi adds no 16-bit floats");
  expect_in(error_of({"bench", "comm", "--size", "4"}), "unknown flag '--size' of bench; did you mean '--sizes'?");
}

TEST(CommandLine, every_verb_has_help_with_an_example) {
  for (const VerbHelp& verb : built_verbs()) {
    const CommandLine c = parse({std::string(verb.name), "--help"});
    EXPECT_EQ(c.verb, Verb::Help);
    expect_in(c.text, "Example: trireme " + std::string(verb.name));
    // the example itself must parse
    Words words;
    std::string word;
    bool quoted = false;
    for (char letter : std::string(verb.example) + " ") {
      if (letter == '\'') quoted = !quoted;
      if (letter == ' ' && !quoted) {
        words.push_back(word);
        word.clear();
      } else if (letter != '\'') {
        word += letter;
      }
    }
    EXPECT_EQ(parse(words).verb, verb.verb) << verb.example;
  }
  expect_in(parse({"--help"}).text, "  check   ");
  expect_in(parse({"--version"}).text, "trireme 0.");
  expect_in(parse({"--version"}).text, "torch");
}

TEST(CommandLine, flags_become_keys_of_the_configuration) {
  const CommandLine c = parse({"train", "a.json", "--set", "x=1", "--data", "123", "--steps", "5", "--backend", "shm"});
  const spec::ConfigSource source = config_source(c);
  EXPECT_EQ(source.files, Words{"a.json"});
  EXPECT_EQ(source.sets, (Words{"x=1", "data.path=\"123\"", "communication.backend=\"shm\"", "training.steps=5"}));
  EXPECT_EQ(config_source(parse({"train", "a", "--data", "a\"b\\c.txt"})).sets,
            Words{"data.path=" + base::Json("a\"b\\c.txt").dump()});
  EXPECT_EQ(config_source(parse({"train", "a", "--data", "\xff.txt"})).sets, Words{"data.path=\xff.txt"});
}

}  // namespace
}  // namespace trireme::cli
