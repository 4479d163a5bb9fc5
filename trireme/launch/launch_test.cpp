#include "trireme/launch/launch.h"

#include <sched.h>

#include <map>
#include <set>

#include "trireme/launch/cores.h"
#include "trireme/launch/launch_fixture.h"

// What ranks are given, and what becomes of their output.
namespace trireme::launch {
namespace {

TEST_F(Launch, ranks_get_torchruns_variables) {
  const int code = run(shell(3,
                             "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
                             "$TORCHELASTIC_RESTART_COUNT; [ $MASTER_PORT -gt 0 ] && [ -n \"$TORCHELASTIC_RUN_ID\" ] "
                             "&& [ $OMP_NUM_THREADS -ge 1 ] && [ $TRIREME_LAUNCHER = $PPID ]"));
  EXPECT_EQ(code, 0);
  const auto lines = lines_of(out());
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()),
            (std::set<std::string>{"[rank 0] 0 3 0 3 0 127.0.0.1 0", "[rank 1] 1 3 1 3 0 127.0.0.1 0",
                                   "[rank 2] 2 3 2 3 0 127.0.0.1 0"}));
  EXPECT_EQ(err(), "");
}

TEST_F(Launch, all_ranks_get_one_master) {
  LaunchSpec spec = shell(4, "echo $MASTER_ADDR:$MASTER_PORT");
  spec.prefix_output = false;
  EXPECT_EQ(run(spec), 0);
  const auto lines = lines_of(out());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), 1u);
  spec.master_addr = "localhost";
  spec.master_port = std::stoi(lines[0].substr(lines[0].find(':') + 1));
  EXPECT_EQ(run(spec), 0);
  EXPECT_EQ(lines_of(out())[0], "localhost:" + std::to_string(spec.master_port));
}

TEST_F(Launch, variables_of_an_outer_launcher_are_replaced) {
  const int code = run(shell(1, "echo $RANK $WORLD_SIZE $MASTER_ADDR"), [] {
    setenv("RANK", "7", 1);
    setenv("WORLD_SIZE", "9", 1);
    setenv("MASTER_ADDR", "elsewhere", 1);
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(out(), "0 1 127.0.0.1\n");
}

TEST_F(Launch, one_rank_has_no_prefix_and_the_streams_stay_apart) {
  EXPECT_EQ(run(shell(1, "echo to out; echo to err >&2; printf unfinished")), 0);
  EXPECT_EQ(out(), "to out\nunfinished");
  EXPECT_EQ(err(), "to err\n");
}

TEST_F(Launch, streams_of_several_ranks_stay_apart) {
  EXPECT_EQ(run(shell(2, "echo to out $RANK; printf 'to err %s' $RANK >&2")), 0);
  const auto lines = lines_of(out());
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()),
            (std::set<std::string>{"[rank 0] to out 0", "[rank 1] to out 1"}));
  const auto errors = lines_of(err());
  EXPECT_EQ(std::set<std::string>(errors.begin(), errors.end()),
            (std::set<std::string>{"[rank 0] to err 0", "[rank 1] to err 1"}));
}

TEST_F(Launch, many_long_lines_of_many_ranks_stay_whole) {
  // lines of 1 to about 60000 characters, in pieces, to both streams, which lead to one file
  const std::string script =
      "awk -v r=$RANK 'BEGIN { while (length(p) < 60000) p = p r r r; for (i = 0; i < 60; i++) { "
      "s = r \" \" i \" \" substr(p, 1, (i * 7919 + r * 104729) % 60000) \"end\"; "
      "if (i % 2) print s > \"/dev/stderr\"; else print s; fflush() } }'";
  EXPECT_EQ(run(shell(4, script), [] { dup2(STDOUT_FILENO, STDERR_FILENO); }), 0);
  const auto lines = lines_of(out());
  ASSERT_EQ(lines.size(), 240u);
  std::map<int, std::set<int>> seen;
  for (const std::string& line : lines) {
    int prefix = -1, rank = -1, index = -1, read = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "[rank %d] %d %d %n", &prefix, &rank, &index, &read), 3) << line.substr(0, 80);
    ASSERT_EQ(prefix, rank);
    const size_t length = static_cast<size_t>((index * 7919 + rank * 104729) % 60000);
    ASSERT_EQ(line.substr(static_cast<size_t>(read)), std::string(length, static_cast<char>('0' + rank)) + "end");
    seen[rank].insert(index);
  }
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(seen[rank].size(), 60u);
}

TEST_F(Launch, log_dir_gets_each_ranks_output_too) {
  LaunchSpec spec = shell(2, "echo out $RANK; echo err $RANK >&2");
  spec.log_dir = (folder_ / "a/b").string();
  EXPECT_EQ(run(spec), 0);
  for (const std::string rank : {"0", "1"}) {
    const auto lines = lines_of(content(folder_ / "a/b" / ("rank_" + rank + ".log")));
    EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), (std::set<std::string>{"out " + rank, "err " + rank}));
  }
  EXPECT_NE(out().find("[rank 1] out 1\n"), std::string::npos);
}

TEST_F(Launch, unusable_log_dir_is_one_line) {
  LaunchSpec spec = shell(2, "echo never");
  spec.log_dir = "/proc/nope";
  EXPECT_EQ(run(spec), 1);
  EXPECT_EQ(lines_of(err()).size(), 1u);
  EXPECT_NE(err().find("/proc/nope"), std::string::npos);
  EXPECT_EQ(out(), "");
}

TEST_F(Launch, program_that_cannot_start) {
  LaunchSpec spec;
  spec.command = {"no-such-program-here", "x"};
  spec.ranks = 2;
  EXPECT_EQ(run(spec), 127);
  EXPECT_EQ(err(), "error: cannot start 'no-such-program-here': No such file or directory\n");
  spec.command = {folder_.string()};
  EXPECT_EQ(run(spec), 126);
  EXPECT_EQ(lines_of(err()).size(), 1u);
}

TEST_F(Launch, wrong_numbers_are_usage_errors) {
  LaunchSpec spec = shell(0, "true");
  EXPECT_EQ(run(spec), 2);
  spec.ranks = 1000000;
  EXPECT_EQ(run(spec), 2);
  EXPECT_EQ(err(), "error: cannot start 1000000 ranks on one host; the number is 1 to 1024\n");
  spec.ranks = 2;
  spec.master_port = 70000;
  EXPECT_EQ(run(spec), 2);
  EXPECT_EQ(run(shell(2, "true"), [] { setenv("OMP_NUM_THREADS", "many", 1); }), 2);
  EXPECT_EQ(err(), "error: OMP_NUM_THREADS='many' is not a positive number\n");
}

TEST_F(Launch, works_without_stdin_and_gives_it_to_rank_0_only) {
  EXPECT_EQ(run(shell(2, "cat; echo end"), [] { close(STDIN_FILENO); }), 0);
  EXPECT_EQ(lines_of(out()).size(), 2u);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "hello\n", 6), 6);
  close(ends[1]);
  EXPECT_EQ(run(shell(2, "cat"), [&] { dup2(ends[0], STDIN_FILENO); }), 0);
  close(ends[0]);
  EXPECT_EQ(out(), "[rank 0] hello\n");
}

TEST_F(Launch, ranks_are_bound_to_disjoint_cpus_where_there_are_enough) {
  const int cpus = static_cast<int>(available_cpus().size());
  LaunchSpec spec = shell(2, "grep Cpus_allowed_list /proc/self/status; echo threads $OMP_NUM_THREADS");
  spec.prefix_output = false;
  EXPECT_EQ(run(spec), 0);
  std::set<std::string> masks;
  for (const auto& line : lines_of(out())) {
    if (line.starts_with("Cpus")) masks.insert(line);
  }
  EXPECT_EQ(masks.size(), cpus >= 2 ? 2u : 1u);
  spec.bind = false;
  EXPECT_EQ(run(spec), 0);
  masks.clear();
  for (const auto& line : lines_of(out())) {
    if (line.starts_with("Cpus")) masks.insert(line);
  }
  EXPECT_EQ(masks.size(), 1u);
}

TEST_F(Launch, more_ranks_than_cores_run_on_all_with_one_thread) {
  LaunchSpec spec = shell(8, "echo $OMP_NUM_THREADS");
  spec.prefix_output = false;
  const int cpu = available_cpus().front();
  EXPECT_EQ(run(spec,
                [cpu] {
                  cpu_set_t one;
                  CPU_ZERO(&one);
                  CPU_SET(cpu, &one);
                  sched_setaffinity(0, sizeof one, &one);
                }),
            0);
  EXPECT_EQ(out(), "1\n1\n1\n1\n1\n1\n1\n1\n");
}

TEST_F(Launch, the_users_thread_count_is_kept_and_warned_about) {
  const int many = 2 * static_cast<int>(available_cpus().size());
  LaunchSpec spec = shell(2, "echo $OMP_NUM_THREADS");
  spec.prefix_output = false;
  const std::string number = std::to_string(many);
  EXPECT_EQ(run(spec, [&] { setenv("OMP_NUM_THREADS", number.c_str(), 1); }), 0);
  EXPECT_EQ(out(), number + "\n" + number + "\n");
  EXPECT_NE(err().find("warning: OMP_NUM_THREADS=" + number + " gives 2 x " + number), std::string::npos) << err();
}

}  // namespace
}  // namespace trireme::launch
