#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/shm/bytes_fixture.h"
#include "trireme/shm/rank_threads.h"

namespace trireme::shm {
namespace {

using base::DType;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

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

}  // namespace
}  // namespace trireme::shm
