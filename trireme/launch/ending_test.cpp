#include <set>

#include "trireme/launch/launch_fixture.h"
#include "trireme/launch/rank_end.h"

// How ranks end: failures, signals, and what they leave behind.
namespace trireme::launch {
namespace {

using Ending = Launch;

TEST_F(Ending, the_first_failing_rank_gives_code_and_last_line) {
  EXPECT_EQ(run(shell(3, "if [ $RANK = 1 ]; then echo broken >&2; exit 3; fi; sleep 60")), 3);
  EXPECT_EQ(last_error(), "rank 1 exited with code 3; ended the other ranks");
  EXPECT_NE(err().find("[rank 1] broken\n"), std::string::npos);
  EXPECT_LT(seconds_, 10.0);
}

TEST_F(Ending, a_killed_rank_is_named) {
  start(shell(2, write_pid + "exec sleep 60"));
  const pid_t victim = [&] {
    pids("pid", 2);
    pid_t pid = 0;
    std::ifstream(folder_ / "pid.1") >> pid;
    return pid;
  }();
  kill(victim, SIGKILL);
  EXPECT_EQ(finish(), 137);
  EXPECT_EQ(last_error(), "rank 1 was killed by signal 9 (SIGKILL); ended the other ranks");
}

TEST_F(Ending, a_lone_rank_speaks_for_itself_unless_it_is_killed) {
  EXPECT_EQ(run(shell(1, "echo why >&2; exit 4")), 4);
  EXPECT_EQ(err(), "why\n");
  EXPECT_EQ(run(shell(1, "kill -9 $$")), 137);
  EXPECT_EQ(err(), "rank 0 was killed by signal 9 (SIGKILL)\n");
}

TEST_F(Ending, ranks_that_ignore_sigterm_are_killed_after_the_grace) {
  LaunchSpec spec = shell(2, "trap '' TERM; " + write_pid +
                                 "if [ $RANK = 0 ]; then while [ ! -e pid.1 ]; do :; done; exit 5; fi; "
                                 "while :; do sleep 1; done");
  spec.grace = 300ms;
  start(spec);
  const auto ranks = pids("pid", 2);
  EXPECT_EQ(finish(), 5);
  EXPECT_EQ(last_error(), "rank 0 exited with code 5; ended the other ranks");
  for (pid_t pid : ranks) EXPECT_FALSE(alive(pid));
}

TEST_F(Ending, sigterm_lets_the_others_end_well) {
  EXPECT_EQ(run(shell(2, "trap 'echo goodbye; exit 0' TERM; " + write_pid +
                             "if [ $RANK = 0 ]; then while [ ! -e pid.1 ]; do :; done; exit 6; fi; "
                             "while :; do sleep 0.05; done")),
            6);
  EXPECT_EQ(out(), "[rank 1] goodbye\n");
}

TEST_F(Ending, everything_that_ranks_started_ends_too) {
  // in the rank's group, in a session of its own, and as an orphan of an orphan; all deaf to SIGTERM
  LaunchSpec spec =
      shell(2,
            "trap '' TERM; sh -c 'echo $$ > a.$RANK; while :; do sleep 1; done' & "
            "setsid sh -c 'echo $$ > b.$RANK; while :; do sleep 1; done' & "
            "(setsid sh -c '(echo $$ > d.$RANK; sh -c \"echo \\$\\$ > c.$RANK; while :; do sleep 1; done\" "
            "&) ; exit 0' &); "
            "while [ ! -s a.0 ] || [ ! -s b.0 ] || [ ! -s c.0 ] || [ ! -s a.1 ] || [ ! -s b.1 ] || "
            "[ ! -s c.1 ]; do sleep 0.05; done; [ $RANK = 0 ] && exit 9; sleep 60");
  spec.grace = 300ms;
  start(spec);
  std::vector<pid_t> started;
  for (const char* name : {"a", "b", "c"}) {
    const auto some = pids(name, 2);
    started.insert(started.end(), some.begin(), some.end());
  }
  EXPECT_EQ(finish(), 9);
  EXPECT_EQ(started.size(), 6u);
  for (pid_t pid : started) EXPECT_FALSE(alive(pid)) << pid;
}

TEST_F(Ending, what_successful_ranks_leave_behind_ends_too) {
  start(
      shell(2, "setsid sh -c 'echo $$ > left.$RANK; exec sleep 60' & while [ ! -s left.$RANK ]; do sleep 0.05; done"));
  const auto left = pids("left", 2);
  EXPECT_EQ(finish(), 0);
  EXPECT_LT(seconds_, 10.0);
  for (pid_t pid : left) EXPECT_FALSE(alive(pid));
}

TEST_F(Ending, ranks_die_with_a_killed_launcher) {
  start(shell(3, write_pid + "trap '' TERM INT HUP; while :; do sleep 1; done"));
  const auto ranks = pids("pid", 3);
  kill(launcher_, SIGKILL);
  EXPECT_EQ(finish(), 137);
  for (pid_t pid : ranks) EXPECT_TRUE(eventually([&] { return !alive(pid); }, 5s));
}

TEST_F(Ending, sigint_is_forwarded_once) {
  start(shell(2, "n=0; trap 'n=$((n+1)); echo interrupt $n' INT; " + write_pid +
                     "i=0; while [ $n -lt 1 ] || [ $i -lt 8 ]; do sleep 0.05; i=$((i + n)); done; exit 130"));
  pids("pid", 2);
  // as `timeout` and a terminal do: several within a moment, to the launcher and its group
  for (int i = 0; i < 4; ++i) {
    kill(launcher_, SIGINT);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(finish(), 130);
  auto lines = lines_of(out());
  EXPECT_EQ(std::multiset<std::string>(lines.begin(), lines.end()),
            (std::multiset<std::string>{"[rank 0] interrupt 1", "[rank 1] interrupt 1"}));
  EXPECT_EQ(err(), "");
}

TEST_F(Ending, ranks_may_take_their_time_after_sigint) {
  LaunchSpec spec =
      shell(2, "trap 'sleep 0.$((RANK * 6)); echo saved; exit 0' INT; " + write_pid + "while :; do sleep 0.05; done");
  spec.grace = 100ms;
  start(spec);
  pids("pid", 2);
  kill(launcher_, SIGINT);
  EXPECT_EQ(finish(), 130);
  EXPECT_NE(out().find("[rank 1] saved"), std::string::npos);
}

TEST_F(Ending, ranks_without_a_handler_just_die_of_sigint) {
  start(shell(2, write_pid + "exec sleep 60"));
  pids("pid", 2);
  kill(launcher_, SIGINT);
  EXPECT_EQ(finish(), 130);
  EXPECT_EQ(err(), "");
}

TEST_F(Ending, sigint_works_where_it_was_ignored_as_in_background_jobs) {
  start(shell(1, write_pid + "exec sleep 60"), [] { signal(SIGINT, SIG_IGN); });
  pids("pid", 1);
  kill(launcher_, SIGINT);
  EXPECT_EQ(finish(), 130);
}

TEST_F(Ending, sigterm_gives_143_and_nohup_is_respected) {
  start(shell(2, write_pid + "exec sleep 60"), [] { signal(SIGHUP, SIG_IGN); });
  const auto ranks = pids("pid", 2);
  kill(launcher_, SIGHUP);
  std::this_thread::sleep_for(100ms);
  for (pid_t pid : ranks) EXPECT_TRUE(alive(pid));
  kill(launcher_, SIGTERM);
  EXPECT_EQ(finish(), 143);
}

TEST_F(Ending, a_second_sigint_after_a_second_kills) {
  start(shell(2, "trap 'echo no' INT TERM; " + write_pid + "while :; do sleep 0.05; done"));
  const auto ranks = pids("pid", 2);
  kill(launcher_, SIGINT);
  std::this_thread::sleep_for(1100ms);
  for (pid_t pid : ranks) EXPECT_TRUE(alive(pid));
  kill(launcher_, SIGINT);
  EXPECT_EQ(finish(5s), 130);
  EXPECT_EQ(last_error(), "killed all ranks at the second signal");
  for (pid_t pid : ranks) EXPECT_FALSE(alive(pid));
}

TEST_F(Ending, echoes_wait_for_the_cause) {
  // rank 0 notices first that its peer is lost, the peer's own failure comes later
  EXPECT_EQ(run(shell(2, "[ $RANK = 0 ] && exit 76; sleep 0.4; echo cause >&2; exit 7")), 7);
  EXPECT_EQ(last_error(), "rank 1 exited with code 7; ended the other ranks");
  EXPECT_NE(err().find("[rank 1] cause"), std::string::npos);
}

TEST_F(Ending, an_echo_alone_is_a_failure) {
  EXPECT_EQ(run(shell(2, "[ $RANK = 0 ] && exit 76; sleep 60")), 1);
  EXPECT_EQ(last_error(), "rank 0 lost a peer; ended the other ranks");
}

TEST_F(Ending, a_reader_that_goes_away_ends_the_ranks) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  start(shell(2, write_pid + "while :; do echo more; sleep 0.01; done"), [&] {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
  });
  close(ends[1]);
  const auto ranks = pids("pid", 2);
  char bytes[16];
  EXPECT_GT(read(ends[0], bytes, sizeof bytes), 0);
  close(ends[0]);
  EXPECT_EQ(finish(), 141);
  for (pid_t pid : ranks) EXPECT_FALSE(alive(pid));
}

TEST_F(Ending, a_reader_that_pauses_does_not_make_the_launcher_deaf) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  start(shell(2, write_pid + "[ $RANK = 0 ] && exec yes; exec sleep 60"), [&] {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
  });
  close(ends[1]);
  const auto ranks = pids("pid", 2);
  std::this_thread::sleep_for(200ms);
  kill(launcher_, SIGTERM);
  for (pid_t pid : ranks) EXPECT_TRUE(eventually([&] { return !alive(pid); }, 10s));
  close(ends[0]);
  EXPECT_NE(finish(), -1);
}

TEST_F(Ending, children_of_the_caller_are_left_alone) {
  pid_t other = -1;
  start(shell(2, "true"), [&] {
    other = fork();
    if (other == 0) {
      execl("/bin/sleep", "sleep", "60", nullptr);
      _exit(1);
    }
    std::ofstream("other.pid") << other << std::endl;
  });
  const auto pid = pids("other", 1);
  EXPECT_EQ(finish(), 97) << "the caller still has its child";
  ASSERT_EQ(pid.size(), 1u);
  EXPECT_TRUE(alive(pid[0]));
  kill(pid[0], SIGKILL);
}

TEST(RankEnd, cause_of_ends_seen_together) {
  const int killed = SIGKILL;
  const auto exited = [](int code) { return code << 8; };
  EXPECT_FALSE(first_cause({{0, exited(0)}}));
  EXPECT_EQ(first_cause({{0, exited(1)}, {1, killed}})->rank, 1);
  EXPECT_EQ(first_cause({{0, exited(76)}, {1, exited(1)}})->rank, 1);
  EXPECT_EQ(first_cause({{2, exited(1)}, {1, exited(2)}})->rank, 1);
  EXPECT_EQ(exit_code({0, killed}), 137);
  EXPECT_EQ(exit_code({0, exited(76)}), 1);
  EXPECT_EQ(describe({3, SIGSEGV}), "rank 3 was killed by signal 11 (SIGSEGV)");
  EXPECT_TRUE(answers({0, SIGINT}, SIGINT));
  EXPECT_TRUE(answers({0, exited(130)}, SIGINT));
  EXPECT_FALSE(answers({0, exited(1)}, SIGINT));
}

}  // namespace
}  // namespace trireme::launch
