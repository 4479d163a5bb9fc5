// Random sequences of collectives, many posted ahead, on buffers that later ones read again, against a serial oracle.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <tuple>

#include "trireme/shm/rank_threads.h"
#include "trireme/shm/ways_fixture.h"

namespace trireme::shm {
namespace {

using base::DType;

constexpr size_t kBuffers = 6;
constexpr size_t kElements = 24000;  // int32 each

struct Item {
  Operation operation;
  size_t in, out;  // buffers
  size_t count;    // elements
  int root;
};

using Memory = std::vector<std::vector<int32_t>>;  // [buffer][element]

std::vector<Item> random_items(std::mt19937& random, int ranks, int count) {
  constexpr Operation kChoice[] = {Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter,
                                   Operation::Broadcast, Operation::Reduce,    Operation::Gather,
                                   Operation::Scatter,   Operation::AllToAll,  Operation::Barrier};
  std::vector<Item> items;
  for (int i = 0; i < count; ++i) {
    Item item{kChoice[random() % std::size(kChoice)], random() % kBuffers, random() % kBuffers, 0, 0};
    const size_t most = kElements / static_cast<size_t>(ranks);
    item.count = random() % ((random() % 4 == 0 ? most : most / 100) + 1);  // inline ones between large ones
    item.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    items.push_back(item);
  }
  return items;
}

Ticket post(Communicator& c, const Item& item, const std::vector<std::byte*>& buffers) {
  std::byte* in = buffers[item.in];
  std::byte* out = buffers[item.out];
  const size_t bytes = item.count * sizeof(int32_t);
  const std::vector<size_t> parts(static_cast<size_t>(c.size()), bytes);
  switch (item.operation) {
    case Operation::AllReduce:
      return c.all_reduce(in, item.count, DType::I32, ReduceOp::Sum);
    case Operation::AllGather:
      return c.all_gather(in, out, bytes);
    case Operation::ReduceScatter:
      return c.reduce_scatter(in, out, item.count, DType::I32, ReduceOp::Sum);
    case Operation::Broadcast:
      return c.broadcast(in, bytes, item.root);
    case Operation::Reduce:
      return c.reduce(in, item.count, DType::I32, ReduceOp::Sum, item.root);
    case Operation::Gather:
      return c.gather(in, out, bytes, item.root);
    case Operation::Scatter:
      return c.scatter(in, out, bytes, item.root);
    case Operation::AllToAll:
      return c.all_to_all(in, out, parts, parts);
    default:
      return c.barrier("stress");
  }
}

int32_t sum_over(const std::vector<Memory>& before, size_t buffer, size_t element) {
  uint32_t sum = 0;
  for (const Memory& memory : before) sum += static_cast<uint32_t>(memory[buffer][element]);
  return static_cast<int32_t>(sum);
}

void apply(const Item& item, std::vector<Memory>& ranks) {
  const std::vector<Memory> before = ranks;
  const size_t n = ranks.size(), count = item.count;
  for (size_t rank = 0; rank < n; ++rank) {
    auto& in = ranks[rank][item.in];
    auto& out = ranks[rank][item.out];
    const bool root = static_cast<int>(rank) == item.root;
    const auto root_in = [&](size_t i) { return before[static_cast<size_t>(item.root)][item.in][i]; };
    for (size_t i = 0; i < count; ++i) {
      switch (item.operation) {
        case Operation::AllReduce:
          in[i] = sum_over(before, item.in, i);
          break;
        case Operation::Reduce:
          if (root) in[i] = sum_over(before, item.in, i);
          break;
        case Operation::ReduceScatter:
          out[i] = sum_over(before, item.in, rank * count + i);
          break;
        case Operation::Broadcast:
          in[i] = root_in(i);
          break;
        case Operation::Scatter:
          out[i] = root_in(rank * count + i);
          break;
        case Operation::AllGather:
        case Operation::Gather:
          for (size_t peer = 0; peer < n; ++peer) {
            if (root || item.operation == Operation::AllGather) out[peer * count + i] = before[peer][item.in][i];
          }
          break;
        case Operation::AllToAll:
          for (size_t peer = 0; peer < n; ++peer) out[peer * count + i] = before[peer][item.in][rank * count + i];
          break;
        default:
          break;
      }
    }
  }
}

class Stress : public ::testing::TestWithParam<std::tuple<int, Way>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Stress, ::testing::Combine(::testing::Values(2, 3, 5), ::testing::ValuesIn(ways())),
                         [](const auto& test) {
                           return std::get<Way>(test.param).name + std::to_string(std::get<int>(test.param));
                         });

TEST_P(Stress, RandomSequencesPostedAhead) {
  const auto& [n, way] = GetParam();
  GroupInfo info;
  info.table = way.table;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    std::mt19937 random(seed * 100 + static_cast<uint32_t>(n));
    const std::vector<Item> items = random_items(random, n, 300);
    std::vector<Memory> expected(n, Memory(kBuffers, std::vector<int32_t>(kElements)));
    for (Memory& memory : expected) {
      for (auto& buffer : memory) {
        for (int32_t& element : buffer) element = static_cast<int32_t>(random());
      }
    }
    const std::vector<Memory> start = expected;
    for (const Item& item : items) apply(item, expected);

    RankThreads ranks(n, info);
    const auto errors = ranks.run([&](int rank, Communicator& communicator) {
      std::vector<std::byte*> buffers;
      Memory ordinary = start[rank];
      for (size_t i = 0; i < kBuffers; ++i) {
        const size_t bytes = kElements * sizeof(int32_t);
        // half of them in ordinary memory, not the same on each rank
        std::byte* data = reinterpret_cast<std::byte*>(ordinary[i].data());
        if ((i + static_cast<size_t>(rank)) % 2 == 0) {
          data = communicator.arena()->allocate(bytes);
          std::memcpy(data, ordinary[i].data(), bytes);
        }
        buffers.push_back(data);
      }
      std::mt19937 own(seed * 1000 + static_cast<uint32_t>(rank));
      std::deque<Ticket> open;
      for (const Item& item : items) {
        open.push_back(post(communicator, item, buffers));
        const size_t ahead = own() % 90;
        while (open.size() > ahead) {
          if (own() % 4 != 0) communicator.wait(open.front());
          open.pop_front();
        }
        if (own() % 5 == 0) communicator.progress();
        if (own() % 5 == 0 && !open.empty()) communicator.test(open.back());
      }
      communicator.wait(communicator.barrier("end"));
      for (size_t i = 0; i < kBuffers; ++i) {
        ASSERT_EQ(std::memcmp(buffers[i], expected[rank][i].data(), kElements * sizeof(int32_t)), 0)
            << "seed " << seed << " rank " << rank << " buffer " << i;
      }
    });
    for (const std::string& error : errors) ASSERT_EQ(error, "");
  }
}

TEST(Threads, SeveralOfOneRankPostAndWait) {
  RankThreads ranks(2);
  const auto errors = ranks.run([](int rank, Communicator& communicator) {
    std::vector<int64_t> values(300, rank + 1);
    std::vector<Ticket> tickets(300);
    for (size_t i = 0; i < 300; ++i) {
      auto* data = reinterpret_cast<std::byte*>(&values[i]);
      tickets[i] = communicator.all_reduce(data, 1, DType::I64, ReduceOp::Sum);
    }
    std::vector<std::thread> waiters;
    for (size_t first = 0; first < 3; ++first) {
      waiters.emplace_back([&, first] {
        for (size_t i = first; i < 300; i += 3) {
          communicator.wait(tickets[i]);
          EXPECT_EQ(values[i], 3);
        }
      });
    }
    for (std::thread& waiter : waiters) waiter.join();
  });
  for (const std::string& error : errors) ASSERT_EQ(error, "");
}

}  // namespace
}  // namespace trireme::shm
