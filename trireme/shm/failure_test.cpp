#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/shm/rank_threads.h"

namespace trireme::shm {
namespace {

using base::DType;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::byte* bytes_of(auto& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// ---- ranks disagree ------------------------------------------------------------------------------------------------

TEST(CommCases, B076_different_operations_at_one_sequence_number) {
  RankThreads ranks(4);
  const auto errors = ranks.run([](int rank, Communicator& communicator) {
    std::vector<float> data(1000, 1);
    for (int i = 0; i < 4; ++i)
      communicator.wait(communicator.all_reduce(bytes_of(data), 1000, DType::F32, ReduceOp::Sum));
    communicator.wait(rank == 3 ? communicator.broadcast(bytes_of(data), 4000, 3)
                                : communicator.all_reduce(bytes_of(data), 1000, DType::F32, ReduceOp::Sum));
  });
  for (const std::string& error : errors) {
    EXPECT_HAS(error, "seq 5");
    EXPECT_HAS(error, "all_reduce(1000 F32, sum)");
    EXPECT_HAS(error, "rank 3 broadcast(4000 bytes, root 3)");
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(CommCases, B077_same_bytes_different_dtype) {
  const auto run = [](DType first, size_t first_count, DType second, size_t second_count) {
    RankThreads ranks(2);
    return ranks.run([=](int rank, Communicator& communicator) {
      std::vector<float> data(2);
      communicator.wait(communicator.all_reduce(bytes_of(data), rank == 0 ? first_count : second_count,
                                                rank == 0 ? first : second, ReduceOp::Sum));
    });
  };
  for (const std::string& error : run(DType::F32, 2, DType::F16, 4)) {
    EXPECT_HAS(error, "rank 0 all_reduce(2 F32, sum), rank 1 all_reduce(4 F16, sum)");
  }
  for (const std::string& error : run(DType::BF16, 4, DType::F16, 4)) {
    EXPECT_HAS(error, "rank 0 all_reduce(4 BF16, sum), rank 1 all_reduce(4 F16, sum)");
  }
}

TEST(Mismatch, RootReduceOpLabelAndPartsAreCompared) {
  const auto run = [](const std::function<Ticket(int, Communicator&, std::byte*)>& call) {
    RankThreads ranks(2);
    return ranks.run([&](int rank, Communicator& communicator) {
      std::vector<float> data(4);
      communicator.wait(call(rank, communicator, bytes_of(data)));
      communicator.wait(communicator.barrier());
    });
  };
  for (const std::string& error :
       run([](int rank, Communicator&c, std::byte*data) { return c.broadcast(data, 8, rank); })) {
    EXPECT_HAS(error, "rank 0 broadcast(8 bytes, root 0), rank 1 broadcast(8 bytes, root 1)");
  }
  for (const std::string& error : run([](int rank, Communicator&c, std::byte*data) {
         return c.all_reduce(data, 2, DType::F32, rank == 0 ? ReduceOp::Min : ReduceOp::Max);
       })) {
    EXPECT_HAS(error, "rank 0 all_reduce(2 F32, min), rank 1 all_reduce(2 F32, max)");
  }
  for (const std::string& error :
       run([](int rank, Communicator&c, std::byte*) { return c.barrier(rank == 0 ? "save" : "evaluate"); })) {
    EXPECT_HAS(error, "rank 0 barrier(\"save\"), rank 1 barrier(\"evaluate\")");
  }
  for (const std::string& error : run([](int rank, Communicator&c, std::byte*data) {
         const std::vector<size_t> to{1, 1}, from{2, 1};
         return c.all_to_all(data, data + 8, rank == 0 ? to : from, rank == 0 ? to : from);
       })) {
    EXPECT_HAS(error, "all_to_all sends");
  }
  // a rank that is ahead notices what others did at an operation that it has finished
  RankThreads ranks(3);
  const auto errors = ranks.run([](int rank, Communicator& communicator) {
    std::vector<float> data(4);
    if (rank == 2) std::this_thread::sleep_for(20ms);
    communicator.wait(communicator.broadcast(bytes_of(data), rank == 2 ? 16 : 8, 0));
    communicator.wait(communicator.barrier());
  });
  for (const std::string& error : errors) {
    EXPECT_HAS(error, "broadcast(8 bytes, root 0), rank 2 broadcast(16 bytes, root 0)");
  }
}

TEST(Mismatch, MessagesOfDifferentSize) {
  RankThreads ranks(2);
  const auto errors = ranks.run([](int rank, Communicator& communicator) {
    std::vector<float> data(4);
    communicator.wait(rank == 0 ? communicator.send(bytes_of(data), 8, 1, 3)
                                : communicator.recv(bytes_of(data), 16, 0, 3));
  });
  for (const std::string& error : errors) EXPECT_HAS(error, "rank 0 sent 8 bytes with tag 3, rank 1 receives 16");
}

TEST(Mismatch, AResultThatDoesNotFitFailsOnAllRanks) {
  RankThreads ranks(3);
  const auto errors = ranks.run([](int, Communicator& communicator) {
    std::vector<uint8_t> data(1, 100);
    communicator.wait(communicator.all_reduce(bytes_of(data), 1, DType::U8, ReduceOp::Sum));
  });
  for (const std::string& error : errors) EXPECT_HAS(error, "the sum of U8 elements is above 255");
}

TEST(Misuse, IsAnErrorBeforeAnythingIsPosted) {
  RankThreads ranks(2);
  Communicator& communicator = *ranks.communicator(0);
  std::vector<float> data(4);
  const std::vector<size_t> one{4};
  EXPECT_THROW(communicator.broadcast(bytes_of(data), 4, 2), base::CommError);
  EXPECT_THROW(communicator.reduce(bytes_of(data), 1, DType::F32, ReduceOp::Sum, -1), base::CommError);
  EXPECT_THROW(communicator.send(bytes_of(data), 4, 0), base::CommError);
  EXPECT_THROW(communicator.recv(bytes_of(data), 4, 5), base::CommError);
  EXPECT_THROW(communicator.all_reduce(bytes_of(data), 1, DType::I64, ReduceOp::Average), base::CommError);
  EXPECT_THROW(communicator.all_to_all(bytes_of(data), bytes_of(data), one, one), base::CommError);
  EXPECT_THROW(make_endpoint(Arena::create(1 << 20), 0), base::CommError);
  auto arena = Arena::create(1 << 20);
  Endpoint endpoint = make_endpoint(arena, 2);
  const std::string address = endpoint.address();
  EXPECT_THROW(Communicator(std::move(endpoint), 0, {address, "nonsense"}, {"g", {0, 1}}), base::CommError);
  EXPECT_EQ(communicator.next_sequence(), 1u);
}

// ---- ranks that do not come ----------------------------------------------------------------------------------------

TEST(CommCases, B081_absent_and_stalled_are_told_apart) {
  {
    RankThreads ranks(3);
    const auto start = Clock::now();
    const auto errors = ranks.run([](int rank, Communicator& communicator) {
      std::vector<float> data(8);
      communicator.wait(communicator.all_reduce(bytes_of(data), 8, DType::F32, ReduceOp::Sum));
      if (rank == 1) return;
      communicator.wait(communicator.all_reduce(bytes_of(data), 8, DType::F32, ReduceOp::Sum), 300ms);
    });
    EXPECT_GE(Clock::now() - start, 300ms);
    EXPECT_LT(Clock::now() - start, 2s);
    for (int rank : {0, 2}) {
      EXPECT_HAS(errors[rank], "rank 1 did not enter all_reduce(8 F32, sum) seq 2 of group \"test\" within 300 ms");
      EXPECT_HAS(errors[rank], "rank 1 last entered seq 1");
    }
  }
  {
    RankThreads ranks(2);
    std::atomic<bool> posted = false, over = false;
    const auto errors = ranks.run([&](int rank, Communicator& communicator) {
      std::vector<float> data(10000);
      if (rank == 1) {
        communicator.all_reduce(bytes_of(data), 10000, DType::F32, ReduceOp::Sum);
        posted = true;
        while (!over) std::this_thread::sleep_for(1ms);
        return;
      }
      while (!posted) std::this_thread::sleep_for(1ms);
      try {
        communicator.wait(communicator.all_reduce(bytes_of(data), 10000, DType::F32, ReduceOp::Sum), 100ms);
      } catch (...) {
        over = true;
        throw;
      }
    });
    EXPECT_HAS(errors[0], "all awaited ranks entered all_reduce(10000 F32, sum) seq 1");
    EXPECT_HAS(errors[0], "rank 1 did not complete it within 100 ms");
  }
}

TEST(Deadline, NamesTheLabelAndTheMessage) {
  GroupInfo info;
  info.name = "dp";
  info.timeout = 50ms;
  {
    RankThreads ranks(2, info);
    const auto errors = ranks.run([](int rank, Communicator& communicator) {
      if (rank == 0) communicator.wait(communicator.barrier("before saving"));
    });
    EXPECT_HAS(errors[0], "rank 1 did not enter barrier(\"before saving\") seq 1 of group \"dp\" within 50.0 ms");
    EXPECT_HAS(errors[0], "rank 1 entered none so far");
  }
  RankThreads ranks(2, info);
  const auto errors = ranks.run([](int rank, Communicator& communicator) {
    std::vector<float> data(1);
    if (rank == 0) communicator.wait(communicator.recv(bytes_of(data), 4, 1, 9));
  });
  EXPECT_HAS(errors[0], "recv(4 bytes, tag 9) from rank 1 of group \"dp\" was not answered within 50.0 ms");
}

TEST(Failure, StaysAndReachesTheOthersAtOnce) {
  RankThreads ranks(3);
  ranks.run([](int rank, Communicator& communicator) {
    std::vector<float> data(8);
    if (rank == 0) communicator.wait(communicator.all_reduce(bytes_of(data), 8, DType::F32, ReduceOp::Sum), 50ms);
  });
  const auto start = Clock::now();
  const auto errors = ranks.run([](int, Communicator& communicator) {
    std::vector<float> data(8);
    communicator.wait(communicator.all_reduce(bytes_of(data), 8, DType::F32, ReduceOp::Sum));
    communicator.wait(communicator.barrier());
  });
  EXPECT_LT(Clock::now() - start, 2s);
  EXPECT_HAS(errors[0], "did not enter");
  for (int rank : {1, 2}) {
    EXPECT_HAS(errors[rank], "rank 0 (process ");
    EXPECT_HAS(errors[rank], "failed first: ranks 1 and 2 did not enter all_reduce(8 F32, sum) seq 1");
  }
}

// ---- dropping and destroying ---------------------------------------------------------------------------------------

TEST(Dropped, TicketsGoOnAndTheirErrorSurfacesAtTheNextOperation) {
  RankThreads ranks(2);
  const auto errors = ranks.run([](int rank, Communicator& communicator) {
    std::vector<float> data(8, 1), other(8, 1);
    communicator.all_reduce(bytes_of(data), 8, DType::F32, ReduceOp::Sum);
    communicator.wait(communicator.barrier());
    EXPECT_EQ(data[7], 2);
    communicator.all_reduce(bytes_of(other), rank == 0 ? 7 : 8, DType::F32, ReduceOp::Sum);
    communicator.wait(communicator.barrier());
  });
  for (const std::string& error : errors) EXPECT_HAS(error, "disagree at seq 3");
}

TEST(Destroyed, WithUnfinishedOperationsTheOthersLearnIt) {
  RankThreads ranks(2);
  const auto errors = ranks.run([&](int rank, Communicator& communicator) {
    std::vector<float> data(100000);
    if (rank == 1) {
      communicator.barrier();
      communicator.send(bytes_of(data), 400000, 0);
      ranks.communicator(1).reset();
      return;
    }
    communicator.wait(communicator.barrier());
    communicator.wait(communicator.all_reduce(bytes_of(data), 8, DType::F32, ReduceOp::Sum));
  });
  EXPECT_HAS(errors[0], "rank 1 (process ");
  EXPECT_HAS(errors[0], "left group \"test\" before all_reduce(8 F32, sum) seq 2");
}

size_t open_files() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(CommCases, B094_many_groups_leave_nothing_behind) {
  std::vector<std::shared_ptr<Arena>> arenas{Arena::create(64 << 20), Arena::create(64 << 20)};
  const size_t files = open_files();
  for (int i = 0; i < 64; ++i) {
    std::vector<Endpoint> endpoints;
    endpoints.push_back(make_endpoint(arenas[0], 2));
    endpoints.push_back(make_endpoint(arenas[1], 2));
    const std::vector<std::string> addresses{endpoints[0].address(), endpoints[1].address()};
    GroupInfo info{"group " + std::to_string(i), {0, 1}};
    Communicator first(std::move(endpoints[0]), 0, addresses, info);
    Communicator second(std::move(endpoints[1]), 1, addresses, info);
    std::vector<float> a(10, 1), b(10, 2);
    const Ticket one = first.all_reduce(bytes_of(a), 10, DType::F32, ReduceOp::Sum);
    const Ticket two = second.all_reduce(bytes_of(b), 10, DType::F32, ReduceOp::Sum);
    while (!first.test(one)) second.progress();
    second.wait(two);
    EXPECT_EQ(a[9], 3);
    first.barrier();  // never finished
  }
  EXPECT_EQ(open_files(), files);
  for (auto& arena : arenas) {
    arena->release(arena->allocate(1));
    EXPECT_EQ(arena->allocated_bytes(), 0u);
  }
}

// ---- processes -----------------------------------------------------------------------------------------------------

struct Board {
  std::atomic<int> arrived;
  char addresses[8][256];
};

// Forks `size` ranks; `body` returns the exit code. Returns each rank's wait status.
std::vector<int> run_processes(
    int size, const std::function<int(int, Communicator&)>& body,
    const std::function<void(int)>& prepare = [](int) {}) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* board = new (memory) Board{};
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 99;
      try {
        prepare(rank);
        Endpoint endpoint = make_endpoint(Arena::create(256 << 20), size);
        std::strncpy(board->addresses[rank], endpoint.address().c_str(), 255);
        board->arrived.fetch_add(1);
        while (board->arrived.load() < size) ::usleep(100);
        GroupInfo info{"world", {}};
        std::vector<std::string> addresses;
        for (int peer = 0; peer < size; ++peer) {
          info.global_ranks.push_back(peer);
          addresses.emplace_back(board->addresses[peer]);
        }
        Communicator communicator(std::move(endpoint), rank, addresses, info);
        code = body(rank, communicator);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    statuses.push_back(status);
  }
  ::munmap(memory, sizeof(Board));
  return statuses;
}

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

TEST(Processes, AKilledRankIsNamedWithinTwoSeconds) {
  const auto start = Clock::now();
  const auto statuses = run_processes(3, [](int rank, Communicator& communicator) {
    std::vector<float> data(100, 1);
    for (int i = 1; i <= 20; ++i) {
      if (rank == 1 && i == 10) ::raise(SIGKILL);
      try {
        communicator.wait(communicator.all_reduce(bytes_of(data), 100, DType::F32, ReduceOp::Average));
      } catch (const base::PeerLostError& error) {
        const std::string text = error.what();
        const bool right =
            i == 10 && text.find("rank 1 (process ") != std::string::npos &&
            text.find("ended during all_reduce(100 F32, average) seq 10 of group \"world\"") != std::string::npos;
        if (!right) std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        return right ? 0 : 1;
      }
    }
    return 2;
  });
  EXPECT_LT(Clock::now() - start, 2s);
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
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
