#include "trireme/shm/status_board.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/shm/arena.h"
#include "trireme/shm/published.h"
#include "trireme/shm/status_writer.h"

namespace trireme::shm {
namespace {

TEST(Published, ReadersNeverSeeHalfAValue) {
  struct Pair {
    uint64_t number, twice;
  };
  static Published<Pair> published{};
  EXPECT_EQ(published.load()->twice, 0u);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t i = 1; !stop; ++i) published.store({i, 2 * i});
  });
  uint64_t last = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto value = published.load();
    if (!value) continue;
    ASSERT_EQ(value->twice, 2 * value->number);
    ASSERT_GE(value->number, last);
    last = value->number;
  }
  stop = true;
  writer.join();
}

TEST(StatusBoard, PhasesAndWaitsNest) {
  const auto board = StatusBoard::create(3);
  EXPECT_EQ(rank_text(board->read(1)), "rank 1: not seen on this host");
  const auto writer = std::make_shared<RankStatusWriter>(board, 1);
  const auto text = [&] { return rank_text(board->read(1)); };
  const std::string who = "rank 1 (process " + std::to_string(getpid()) + "): ";
  EXPECT_EQ(text(), who + "alive, computing, not in a collective");
  writer->set_step(12);
  {
    const StatusPhase forward(writer, "forward");
    {
      const StatusPhase inner(writer, "data");
      const StatusWait wait(writer, "all_reduce", "tp", 7, 4096);
      EXPECT_EQ(text().find(who + "alive, waiting in all_reduce 7 of group 'tp' for "), 0u) << text();
      EXPECT_NE(text().find(", in step 12, data for "), std::string::npos) << text();
      EXPECT_EQ(board->read(1).activity.bytes, 4096u);
    }
    EXPECT_EQ(board->read(1).activity.phase, "forward");
    EXPECT_EQ(board->read(1).activity.operation, "");
    EXPECT_FALSE(board->read(1).activity.phase_may_be_long);
  }
  EXPECT_EQ(text(), who + "alive, computing, not in a collective, in step 12");
  const StatusPhase none(nullptr, "without a board");
  EXPECT_THROW(RankStatusWriter(board, 3), base::CommError);
}

TEST(StatusBoard, LongTextsAreCut) {
  const auto board = StatusBoard::create(1);
  const auto writer = std::make_shared<RankStatusWriter>(board, 0);
  writer->set_failure(std::string(5000, 'x'));
  writer->set_barrier(std::string(500, 'y'));
  const StatusPhase phase(writer, std::string(500, 'z'));
  const RankStatus status = board->read(0);
  EXPECT_EQ(status.failure, std::string(1023, 'x'));
  EXPECT_EQ(status.activity.barrier, std::string(47, 'y'));
  EXPECT_EQ(status.activity.phase, std::string(30, 'z'));
}

TEST(StatusBoard, IsReadFromOutside) {
  const auto board = StatusBoard::create(2);
  const auto writer = std::make_shared<RankStatusWriter>(board, 1);
  writer->set_step(5);
  EXPECT_EQ(StatusBoard::attach(board->address())->read(1).activity.step, 5);
  const pid_t child = fork();
  if (child == 0) {
    const auto seen = StatusBoard::of_process(getppid());
    _exit(seen && seen->ranks() >= 1 ? 0 : 1);
  }
  int end = 0;
  waitpid(child, &end, 0);
  EXPECT_EQ(end, 0);
  EXPECT_THROW(StatusBoard::attach(Arena::create(1 << 20)->address()), base::DataError);
}

TEST(StatusBoard, SaysHowARankEnded) {
  const auto board = StatusBoard::create(3);
  const auto start = [&](int rank, auto body) {
    const pid_t child = fork();
    if (child == 0) body();
    board->set_started(rank, child);
    return child;
  };
  const auto sleeps = [] {
    for (;;) pause();
  };
  const pid_t child = start(0, sleeps);
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(condition_text(board->read(0)), "alive, stopped");
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, child, &info, WEXITED | WNOWAIT);
  EXPECT_EQ(condition_text(board->read(0)), "was killed by signal 9 (SIGKILL)");  // not collected yet
  waitpid(child, nullptr, 0);
  EXPECT_EQ(condition_text(board->read(0)), "ended");  // nobody has told how

  const pid_t other = start(1, [] { _exit(3); });
  int end = 0;
  waitpid(other, &end, 0);
  board->set_watched();
  std::thread teller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    board->set_ended(1, end);
  });
  EXPECT_EQ(condition_text(board->read(1)), "exited with code 3");  // waits until it is told
  teller.join();
}

}  // namespace
}  // namespace trireme::shm
