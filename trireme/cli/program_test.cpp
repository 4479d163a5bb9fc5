#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

// The built `trireme`, started as a user does. Beside a copy of it lies a shell script in place of `trireme-rank`.
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::multiset<std::string> lines_of(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

const char* good_config = R"({
  "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 64, "vocab_size": 256},
  "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}, "training": {"steps": 3} })";

class Program : public testing::Test {
 protected:
  Program() {
    static int count = 0;
    folder_ = fs::path(testing::TempDir()) / ("program" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(folder_);
    fs::copy_file(TRIREME_PROGRAM, folder_ / "trireme");
    write("c.json", good_config);
    write("text.txt", "some text to train on\n");
  }
  ~Program() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  void write_rank_program(const std::string& script) {
    write("trireme-rank", "#!/bin/sh\n" + script);
    fs::permissions(folder_ / "trireme-rank", fs::perms::owner_all);
  }

  int run(const Words& words, const Environment& variables = {}) {
    const pid_t child = fork();
    if (child == 0) {
      for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"}) unsetenv(name);
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      if (chdir(folder_.c_str()) != 0) _exit(99);
      const int flags = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(open("out", flags, 0600), STDOUT_FILENO);
      dup2(open("err", flags, 0600), STDERR_FILENO);
      std::vector<char*> argv = {const_cast<char*>("./trireme")};
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      alarm(20);
      execv(argv[0], argv.data());
      _exit(98);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  std::string out() const { return content(folder_ / "out"); }
  std::string err() const { return content(folder_ / "err"); }

  void expect_refused(int code, const Words& words, const std::string& part, const Environment& variables = {}) {
    EXPECT_EQ(run(words, variables), code) << err();
    EXPECT_NE(err().find(part), std::string::npos) << err() << "\nlacks: " << part;
    EXPECT_LE(lines_of(err()).size(), 7u) << err();
    EXPECT_EQ(out(), "");
  }

  fs::path folder_;
};

TEST_F(Program, version_and_help) {
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(out().find("trireme 0."), 0u);
  EXPECT_EQ(run({"train", "--help"}), 0);
  EXPECT_NE(out().find("--resume"), std::string::npos);
  EXPECT_EQ(err(), "");
}

TEST_F(Program, check_accepts) {
  EXPECT_EQ(run({"check", "c.json"}), 0) << err();
  EXPECT_NE(out().find("train_batch_size 8 = 4 samples * 2 micro-batches * 1 data-parallel ranks"), std::string::npos)
      << out();
  EXPECT_NE(out().find("assuming 1 rank"), std::string::npos);
  EXPECT_EQ(run({"check", "c.json", "--ranks", "2"}), 0) << err();
  EXPECT_NE(out().find("= 4 samples * 1 micro-batches * 2"), std::string::npos) << out();
  EXPECT_EQ(out().find("assuming"), std::string::npos);
}

TEST_F(Program, check_refuses_with_all_violations) {
  write("bad.json", R"({"train_batch_size": 9, "train_micro_batch_size_per_gpu": 4, "gradient_clipp1ng": 1})");
  EXPECT_EQ(run({"check", "bad.json"}), 1);
  EXPECT_NE(err().find("gradient_clipping"), std::string::npos) << err();
  EXPECT_NE(err().find("9"), std::string::npos) << err();
  EXPECT_EQ(out(), "");
}

TEST_F(Program, B087_the_world_is_known_when_the_configuration_is_checked) {
  write("big.json", R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4,
                        "gradient_accumulation_steps": 8})");
  EXPECT_EQ(run({"check", "big.json", "--ranks", "8"}), 0) << err();
  EXPECT_EQ(run({"check", "big.json"}), 1);
  EXPECT_NE(err().find("256"), std::string::npos) << err();
}

TEST_F(Program, train_starts_ranks_with_the_same_arguments) {
  write_rank_program("echo \"$RANK of $WORLD_SIZE:\" \"$@\"");
  const Words words = {"train", "c.json", "--data", "text.txt", "--ranks", "2", "--out", "a b"};
  EXPECT_EQ(run(words), 0) << err();
  EXPECT_EQ(lines_of(out()),
            (std::multiset<std::string>{"[rank 0] 0 of 2: train c.json --data text.txt --ranks 2 --out a b",
                                        "[rank 1] 1 of 2: train c.json --data text.txt --ranks 2 --out a b"}));
  EXPECT_EQ(run({"train", "c.json", "--data", "text.txt"}), 0) << err();
  EXPECT_EQ(out(), "0 of 1: train c.json --data text.txt\n");
}

TEST_F(Program, under_a_launcher_train_becomes_a_rank) {
  write_rank_program("echo \"$RANK of $WORLD_SIZE, pid $$ of $PPID\"");
  const Environment torchrun = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(run({"train", "c.json", "--data", "text.txt"}, torchrun), 0) << err();
  EXPECT_EQ(out().find("1 of 2, pid "), 0u) << out();
  EXPECT_NE(out().find(" of " + std::to_string(getpid())), std::string::npos) << "no launcher in between";
  expect_refused(2, {"train", "c.json", "--data", "text.txt", "--ranks", "3"},
                 "--ranks 3 is not the number of ranks that torchrun started, 2", torchrun);
}

TEST_F(Program, X01_in_a_slurm_step_and_in_an_allocation_shell) {
  write_rank_program("echo \"rank=$RANK procid=$SLURM_PROCID\"");
  Environment step = {{"SLURM_JOB_ID", "7"},         {"SLURM_NTASKS", "4"},
                      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2"},
                      {"SLURM_PROCID", "1"},         {"SLURM_LOCALID", "1"}};
  EXPECT_EQ(run({"train", "c.json", "--data", "text.txt"}, step), 0) << err();
  EXPECT_EQ(out(), "rank= procid=1\n");
  EXPECT_EQ(
      run({"train", "c.json", "--data", "text.txt", "--ranks", "2"}, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}), 0)
      << err();
  EXPECT_EQ(lines_of(out()), (std::multiset<std::string>{"[rank 0] rank=0 procid=", "[rank 1] rank=1 procid="}));
}

TEST_F(Program, B085_part_of_a_launchers_variables_never_starts_a_run) {
  write_rank_program("echo started");
  const Words train = {"train", "c.json", "--data", "text.txt", "--steps", "1"};
  expect_refused(2, train, "WORLD_SIZE is not set, but RANK=0 is", {{"RANK", "0"}});
  expect_refused(2, train, "RANK=5 is not below WORLD_SIZE=2",
                 {{"RANK", "5"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29999"}});
  expect_refused(2, train, "MASTER_PORT='127.0.0.1' is not a port number",
                 {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "29999"}, {"MASTER_PORT", "127.0.0.1"}});
}

TEST_F(Program, bad_input_is_refused_before_a_rank_starts) {
  write_rank_program("echo started");
  write("empty.txt", "");
  expect_refused(1, {"train", "c.json", "--data", "none.txt"}, "none.txt");
  expect_refused(1, {"train", "c.json", "--data", "empty.txt"}, "empty.txt");
  expect_refused(1, {"train", "c.json", "--data", "."}, "directory");
  expect_refused(2, {"train", "c.json"}, "--data");
  expect_refused(1, {"train", "nope.json", "--data", "text.txt"}, "nope.json");
  expect_refused(1, {"train", "c.json", "--data", "text.txt", "--backend", "foo"}, "foo");
  expect_refused(1, {"train", "c.json", "--data", "text.txt", "--ranks", "3"}, "8");
  expect_refused(1, {"train", "c.json", "--data", "text.txt", "--set", "a.b=c"}, "a");
  expect_refused(2, {"train", "c.json", "--data", "text.txt", "--stepz", "3"}, "--steps");
  expect_refused(2, {"trian"}, "train");
  expect_refused(2, {"plan", "c.json"}, "'plan' is not built yet");
  write("nosteps.json", R"({"train_batch_size": 8, "model": {"model_type": "gpt2", "n_layer": 1, "n_embd": 8,
                            "n_head": 1, "n_positions": 8}})");
  expect_refused(1, {"train", "nosteps.json", "--data", "text.txt"}, "--steps");
}

TEST_F(Program, a_missing_rank_program_is_one_line) {
  expect_refused(1, {"train", "c.json", "--data", "text.txt"}, "trireme-rank");
  expect_refused(1, {"eval", "folder", "--data", "text.txt"}, "trireme-rank");
  EXPECT_EQ(lines_of(err()).size(), 1u);
}

TEST_F(Program, prove_as_json_is_alone_on_stdout) {
  write_rank_program("[ $RANK = 0 ] && echo '{\"equal\": true}'; [ $WORLD_SIZE = 2 ]");
  EXPECT_EQ(run({"prove", "c.json", "--json"}), 0) << err();
  EXPECT_EQ(out(), "{\"equal\": true}\n");
}

TEST_F(Program, eval_and_sample_become_the_rank_program) {
  write_rank_program("echo \"$PPID $RANK:\" \"$@\"; exit 5");
  EXPECT_EQ(run({"eval", "folder", "--data", "text.txt", "--json"}), 5);
  EXPECT_EQ(out(), std::to_string(getpid()) + " : eval folder --data text.txt --json\n");
  EXPECT_EQ(run({"sample", "folder", "--prompt", "In the"}), 5);
  EXPECT_EQ(out(), std::to_string(getpid()) + " : sample folder --prompt In the\n");
}

TEST_F(Program, launch_gives_the_first_failing_ranks_code) {
  EXPECT_EQ(run({"launch", "-n", "2", "--", "sh", "-c", "[ $RANK = 0 ] || exit 3; sleep 20"}), 3);
  EXPECT_EQ(err(), "rank 1 exited with code 3; ended the other ranks\n");
  EXPECT_EQ(run({"launch", "-n", "2", "--", "no-such-program"}), 127);
  EXPECT_EQ(err(), "error: cannot start 'no-such-program': No such file or directory\n");
  EXPECT_EQ(run({"launch", "-n", "2", "--threads", "1", "echo", "hi"}), 0);
  EXPECT_EQ(lines_of(out()), (std::multiset<std::string>{"[rank 0] hi", "[rank 1] hi"}));
}

}  // namespace
