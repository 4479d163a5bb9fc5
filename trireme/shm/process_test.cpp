#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "trireme/base/error.h"
#include "trireme/shm/bytes_fixture.h"
#include "trireme/shm/rank_processes.h"

namespace trireme::shm {
namespace {

using base::DType;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(Processes, ReduceGatherAndSend) {
  const auto statuses = run_processes(3, [](int rank, Communicator& communicator) {
    std::byte* memory = communicator.arena()->allocate(4 * 5000);
    auto* shared = reinterpret_cast<float*>(memory);
    for (int round = 1; round <= 20; ++round) {
      for (int i = 0; i < 5000; ++i) shared[i] = static_cast<float>(rank + i * round);
      communicator.wait(communicator.all_reduce(memory, 5000, DType::F32, ReduceOp::Sum));
      for (int i = 0; i < 5000; ++i) {
        if (shared[i] != static_cast<float>(3 + 3 * i * round)) return 1;
      }
      std::vector<int> mine{rank, round}, all(6);
      communicator.wait(communicator.all_gather(bytes_of(mine), bytes_of(all), 8));
      if (all != std::vector<int>{0, round, 1, round, 2, round}) return 2;
      const int next = (rank + 1) % 3, previous = (rank + 2) % 3;
      std::vector<int> received(2);
      const Ticket ticket = communicator.send(bytes_of(mine), 8, next);
      communicator.wait(communicator.recv(bytes_of(received), 8, previous));
      communicator.wait(ticket);
      if (received != std::vector<int>{previous, round}) return 3;
    }
    return 0;
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

// from here on the kernel refuses process_vm_readv, as some containers do
void forbid_reading_processes() {
  const sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), const_cast<sock_filter*>(filter)};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("no seccomp here");
  }
}

// ordinary memory, more than is copied
int reduce_private(int rank, Communicator& communicator, bool expect_copies) {
  constexpr size_t kCount = 50'001;
  const size_t before = communicator.arena()->allocated_bytes();
  std::vector<float> data(kCount), all(3 * kCount);
  communicator.wait(communicator.barrier("all have tried to read each other"));
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(rank + round + static_cast<int>(i));
    const Ticket ticket = communicator.all_reduce(bytes_of(data), kCount, DType::F32, ReduceOp::Sum);
    const bool copied = communicator.arena()->allocated_bytes() > before;
    // it is done at once if the others were there, and then the copy is gone
    if (copied && !expect_copies) return 1;
    communicator.wait(ticket);
    for (size_t i = 0; i < kCount; ++i) {
      if (data[i] != static_cast<float>(3 + 3 * round + 3 * static_cast<int>(i))) return 2;
    }
    data[0] = static_cast<float>(rank);
    communicator.wait(communicator.all_gather(bytes_of(data), bytes_of(all), kCount * sizeof(float)));
    for (size_t peer = 0; peer < 3; ++peer) {
      if (all[peer * kCount] != static_cast<float>(peer) || all[peer * kCount + 1] != data[1]) return 3;
    }
  }
  return 0;
}

TEST(Processes, PrivateMemoryIsReadWhereItLies) {
  const auto statuses =
      run_processes(3, [](int rank, Communicator& communicator) { return reduce_private(rank, communicator, false); });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Processes, WhereReadingOtherProcessesIsForbiddenPrivateMemoryIsCopied) {
  // of one rank only: the others' inputs must not be left unreadable for it
  const auto statuses = run_processes(
      3, [](int rank, Communicator& communicator) { return reduce_private(rank, communicator, true); },
      [](int rank) {
        if (rank == 1) forbid_reading_processes();
      });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

using Status = std::shared_ptr<RankStatusWriter>;

// What rank 0 or 2 of three says when rank 1 does not come to the tenth all-reduce; `body` is what rank 1 does instead.
struct Trouble {
  std::function<void(const Status&)> body;
  std::chrono::nanoseconds limit = 10s;
  std::vector<std::string> parts;  // of the message
};

int error_at_tenth(int rank, Communicator& communicator, const Trouble& trouble) {
  const auto& status = communicator.info().status;
  std::vector<float> data(100, 1);
  for (int i = 1; i <= 20; ++i) {
    status->set_step(i);
    const StatusPhase phase(status, rank == 1 ? "forward" : "reduction");
    try {
      if (rank == 1 && i == 10) trouble.body(status);
      communicator.wait(communicator.all_reduce(bytes_of(data), 100, DType::F32, ReduceOp::Average), trouble.limit);
    } catch (const base::CommError& error) {
      const std::string text = error.what();
      bool right = i == 10;
      for (const std::string& part : trouble.parts) right &= text.find(part) != std::string::npos;
      if (!right && rank != 1) std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      return right ? 0 : 1;
    }
  }
  return 2;
}

void expect_error_at_tenth(const Trouble& trouble) {
  const auto start = Clock::now();
  const auto ends = run_processes(
      3, [&](int rank, Communicator& communicator) { return error_at_tenth(rank, communicator, trouble); });
  EXPECT_LT(Clock::now() - start, 2s);
  EXPECT_EQ(ends[0], 0);
  EXPECT_EQ(ends[2], 0);
}

TEST(Processes, AKilledRankIsNamedWithinTwoSeconds) {
  expect_error_at_tenth(
      {.body = [](const Status&) { ::raise(SIGKILL); },
       .parts = {"rank 1 (process ",
                 ") was killed by signal 9 (SIGKILL) during all_reduce(100 F32, average) seq 10 of group \"world\"",
                 "; it was in step 10, forward for "}});
}

TEST(Processes, ARankThatExitsIsNamedWithItsCode) {
  expect_error_at_tenth(
      {.body = [](const Status&) { ::_exit(7); },
       .parts = {"rank 1 (process ", ") exited with code 7 during all_reduce(100 F32, average) seq 10"}});
}

TEST(Processes, AStoppedRankIsNamedAtTheDeadline) {
  // the second process wakes it when the others have seen it, so that all end
  expect_error_at_tenth({.body =
                             [](const Status&) {
                               const pid_t self = ::getpid();
                               if (::fork() == 0) {
                                 ::usleep(900'000);
                                 ::kill(self, SIGCONT);
                                 ::_exit(0);
                               }
                               ::raise(SIGSTOP);
                             },
                         .limit = 300ms,
                         .parts = {"rank 1 did not enter all_reduce(100 F32, average) seq 10", "within 300 ms",
                                   "): alive, stopped, in step 10, forward for ", "last entered seq 9"}});
}

TEST(Processes, ABusyRankIsNamedAtTheDeadline) {
  expect_error_at_tenth({.body = [](const Status&) { ::usleep(900'000); },
                         .limit = 300ms,
                         .parts = {"rank 1 did not enter", ": alive, computing, not in a collective, in step 10"}});
}

TEST(Processes, ARankThatWaitsElsewhereIsNamedWithWhatItWaitsFor) {
  expect_error_at_tenth({.body =
                             [](const Status& status) {
                               const StatusWait wait(status, "all_gather", "tp", 7, 4096);
                               ::usleep(900'000);
                             },
                         .limit = 300ms,
                         .parts = {": alive, waiting in all_gather 7 of group 'tp' for "}});
}

TEST(Processes, DeadlinesSayWhichBarrierEachRankPassedLast) {
  expect_error_at_tenth({.body =
                             [](const Status& status) {
                               status->set_barrier("epoch 2");
                               ::usleep(900'000);
                             },
                         .limit = 300ms,
                         .parts = {"last barriers passed: rank 0 none, rank 1 'epoch 2', rank 2 none"}});
}

TEST(Processes, WhoSavesOrEvaluatesIsWaitedForBeyondTheDeadline) {
  const auto ends = run_processes(2, [](int rank, Communicator& communicator) {
    std::vector<float> data(100, 1);
    if (rank == 1) {
      const StatusPhase phase(communicator.info().status, "checkpoint", true);
      ::usleep(700'000);
    }
    communicator.wait(communicator.all_reduce(bytes_of(data), 100, DType::F32, ReduceOp::Sum), 200ms);
    return data[99] == 2 ? 0 : 1;
  });
  for (int end : ends) EXPECT_EQ(end, 0);
}

TEST(Processes, ARankThatEndsAfterItsLastOperationHarmsNobody) {
  const auto statuses = run_processes(2, [](int rank, Communicator& communicator) {
    std::vector<float> data(1000, 1);
    if (rank == 0) ::usleep(60'000);
    // rank 1 broadcasts nothing and reads at once; rank 0 comes to its own wait when rank 1 is long gone
    const Ticket ticket = communicator.all_reduce(bytes_of(data), 1000, DType::F32, ReduceOp::Sum);
    communicator.wait(ticket);
    if (rank == 1) ::_exit(0);
    ::usleep(60'000);
    return communicator.test(ticket) && data[999] == 2 ? 0 : 1;
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace trireme::shm
