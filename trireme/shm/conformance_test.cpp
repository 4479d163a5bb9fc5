// Every operation x ranks x dtype x length x memory against a serial oracle with exact bits.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/shm/memory_limit.h"
#include "trireme/shm/rank_threads.h"
#include "trireme/shm/reduce.h"
#include "trireme/shm/reduce_oracle.h"
#include "trireme/shm/ways_fixture.h"

namespace trireme::shm {
namespace {

using base::DType;
using Bytes = std::vector<std::byte>;

constexpr size_t kLengths[] = {0, 1, 7, 64, 1000, 100003};
constexpr DType kTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8};
constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Average, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product};

/// A buffer of this rank, in its arena or in ordinary memory.
class Buffer {
 public:
  Buffer(Communicator& communicator, const Bytes& content, bool in_arena)
      : arena_(in_arena ? communicator.arena() : nullptr), own_(in_arena ? 0 : content.size()), size_(content.size()) {
    data_ = in_arena ? arena_->allocate(size_) : own_.data();
    if (size_ > 0) std::memcpy(data_, content.data(), size_);
  }
  ~Buffer() {
    if (arena_) arena_->release(data_);
  }
  std::byte* data() const { return data_; }
  Bytes content() const { return Bytes(data_, data_ + size_); }

 private:
  std::shared_ptr<Arena> arena_;
  Bytes own_;
  std::byte* data_;
  size_t size_;
};

template <class T>
T value(std::mt19937& random, DType dtype) {
  const float small = static_cast<float>(random() % 4096) / 1024.0f - 2.0f + 0.0003f;
  if (dtype == DType::U8) return static_cast<T>(random() % 4);
  if (dtype == DType::F16 || dtype == DType::BF16) return static_cast<T>(oracle::narrowed(small, dtype));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(random()) << 32 | random());
  } else {
    return static_cast<T>(small);
  }
}

// rank order, one rounding; 16-bit floats in fp32
template <class T>
void fill(std::vector<Bytes>& inputs, Bytes& expected, size_t count, DType dtype, ReduceOp op) {
  const bool half = dtype == DType::F16 || dtype == DType::BF16;
  const int ranks = static_cast<int>(inputs.size());
  std::mt19937 random(static_cast<uint32_t>(count) + 17);
  std::vector<std::vector<T>> values(inputs.size(), std::vector<T>(count));
  for (auto& of_rank : values) {
    for (T& element : of_rank) element = value<T>(random, dtype);
  }
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i) {
    const auto fold = [&](auto first, auto convert) {
      auto accumulator = first;
      const ReduceOp each = op == ReduceOp::Average ? ReduceOp::Sum : op;
      for (int rank = 1; rank < ranks; ++rank) {
        accumulator = oracle::combined(accumulator, static_cast<decltype(first)>(convert(values[rank][i])), each, 1);
      }
      return op == ReduceOp::Average ? accumulator / static_cast<decltype(first)>(ranks) : accumulator;
    };
    if (half) {
      const auto convert = [&](T bits) { return oracle::widened(static_cast<uint16_t>(bits), dtype); };
      result[i] = static_cast<T>(oracle::narrowed(fold(convert(values[0][i]), convert), dtype));
    } else if (std::is_integral_v<T> && (op == ReduceOp::Sum || op == ReduceOp::Product)) {
      const auto convert = [](T number) { return static_cast<uint64_t>(number); };
      result[i] = static_cast<T>(fold(convert(values[0][i]), convert));
    } else {
      const auto convert = [](T number) { return number; };
      result[i] = fold(values[0][i], convert);
    }
  }
  const size_t bytes = count * sizeof(T);
  for (int rank = 0; rank < ranks; ++rank) {
    inputs[rank].resize(bytes);
    if (bytes > 0) std::memcpy(inputs[rank].data(), values[rank].data(), bytes);
  }
  expected.resize(bytes);
  if (bytes > 0) std::memcpy(expected.data(), result.data(), bytes);
}

void fill_any(std::vector<Bytes>& inputs, Bytes& expected, size_t count, DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::F32:
      return fill<float>(inputs, expected, count, dtype, op);
    case DType::F64:
      return fill<double>(inputs, expected, count, dtype, op);
    case DType::F16:
    case DType::BF16:
      return fill<uint16_t>(inputs, expected, count, dtype, op);
    case DType::I32:
      return fill<int32_t>(inputs, expected, count, dtype, op);
    case DType::I64:
      return fill<int64_t>(inputs, expected, count, dtype, op);
    default:
      return fill<uint8_t>(inputs, expected, count, dtype, op);
  }
}

Bytes slice(const Bytes& bytes, size_t begin, size_t size) {
  return Bytes(bytes.begin() + static_cast<long>(begin), bytes.begin() + static_cast<long>(begin + size));
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) ASSERT_EQ(error, "");
}

class Conformance : public ::testing::TestWithParam<std::tuple<int, Way>> {
 protected:
  int ranks() const { return std::get<int>(GetParam()); }
  GroupInfo info() const {
    GroupInfo info;
    info.table = std::get<Way>(GetParam()).table;
    return info;
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Conformance,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5), ::testing::ValuesIn(ways())),
                         [](const auto& test) {
                           return std::get<Way>(test.param).name + std::to_string(std::get<int>(test.param));
                         });

struct Case {
  DType dtype;
  ReduceOp op;
  size_t count;
  std::vector<Bytes> inputs;  // [rank]
  Bytes expected;
};

// all lengths of one dtype and reduction
std::vector<Case> cases_of(DType dtype, ReduceOp op, size_t ranks) {
  std::vector<Case> cases;
  for (size_t count : kLengths) {
    cases.push_back({dtype, op, count, std::vector<Bytes>(ranks), {}});
    fill_any(cases.back().inputs, cases.back().expected, count, dtype, op);
  }
  return cases;
}

/// What one posted operation must leave at one place.
struct Expectation {
  std::string what;
  const std::byte* data;
  Bytes content;
};

// Posts every reduction of every case ahead, then waits for all and compares.
void reduce_all(int rank, Communicator& communicator, const std::vector<Case>& cases, bool in_arena) {
  const auto n = static_cast<size_t>(communicator.size());
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Expectation> expectations;
  std::vector<Ticket> tickets;
  const auto buffer = [&](const Bytes& content) {
    buffers.push_back(std::make_unique<Buffer>(communicator, content, in_arena));
    return buffers.back()->data();
  };
  for (const Case& c : cases) {
    const auto expect = [&](const char* operation, const std::byte* data, const Bytes& content) {
      expectations.push_back({base::text_of(operation, " ", base::name_of(c.dtype), " ", name_of(c.op), " ", c.count,
                                            in_arena ? " arena" : " ordinary", " rank ", rank),
                              data, content});
    };
    std::byte* data = buffer(c.inputs[rank]);
    tickets.push_back(communicator.all_reduce(data, c.count, c.dtype, c.op));
    expect("all_reduce", data, c.expected);

    const int root = static_cast<int>(c.count % n);
    data = buffer(c.inputs[rank]);
    tickets.push_back(communicator.reduce(data, c.count, c.dtype, c.op, root));
    expect("reduce", data, rank == root ? c.expected : c.inputs[rank]);

    const size_t part = c.count / n;
    const size_t bytes = part * base::size_of(c.dtype);
    const size_t own = bytes * static_cast<size_t>(rank);
    const Bytes input = slice(c.inputs[rank], 0, bytes * n);
    const Bytes mine = slice(c.expected, own, bytes);
    const std::byte* in = buffer(input);
    std::byte* out = buffer(Bytes(bytes));
    tickets.push_back(communicator.reduce_scatter(in, out, part, c.dtype, c.op));
    expect("reduce_scatter", out, mine);
    expect("reduce_scatter's input", in, input);
    if (c.count > 1000) continue;
    data = buffer(input);
    tickets.push_back(communicator.reduce_scatter(data, data, part, c.dtype, c.op));
    expect("reduce_scatter to its input's start", data, mine);
    data = buffer(input);
    tickets.push_back(communicator.reduce_scatter(data, data + own, part, c.dtype, c.op));
    expect("reduce_scatter to its own part", data + own, mine);
  }
  for (Ticket ticket : tickets) communicator.wait(ticket);
  for (const Expectation& expected : expectations) {
    const Bytes& content = expected.content;
    ASSERT_TRUE(std::equal(content.begin(), content.end(), expected.data)) << expected.what;
  }
}

TEST_P(Conformance, reductions) {
  RankThreads threads(ranks(), info());
  for (DType dtype : kTypes) {
    for (ReduceOp op : kOps) {
      const bool integer = dtype == DType::I32 || dtype == DType::I64 || dtype == DType::U8;
      if (integer && op == ReduceOp::Average) continue;
      const std::vector<Case> cases = cases_of(dtype, op, static_cast<size_t>(ranks()));
      expect_no_errors(threads.run([&](int rank, Communicator& communicator) {
        reduce_all(rank, communicator, cases, true);
        reduce_all(rank, communicator, cases, false);
      }));
    }
  }
}

// byte `i` of rank `rank` for rank `to`
std::byte content(int rank, int to, size_t i) {
  return static_cast<std::byte>(rank * 37 + to * 101 + static_cast<int>(i % 251));
}

Bytes contents(int rank, int to, size_t bytes) {
  Bytes result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = content(rank, to, i);
  return result;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_P(Conformance, movements) {
  RankThreads threads(ranks(), info());
  const int n = ranks();
  expect_no_errors(threads.run([&](int rank, Communicator& communicator) {
    for (size_t bytes : kLengths) {
      Bytes from_all, to_all;
      for (int peer = 0; peer < n; ++peer) {
        from_all = from_all + contents(peer, 0, bytes);
        to_all = to_all + contents(rank, peer, bytes);
      }
      for (bool in_arena : {true, false}) {
        const Bytes mine = contents(rank, 0, bytes);
        Buffer in(communicator, mine, in_arena);
        Buffer all(communicator, Bytes(bytes * static_cast<size_t>(n)), in_arena);
        communicator.wait(communicator.all_gather(in.data(), all.data(), bytes));
        ASSERT_TRUE(all.content() == from_all);
        Buffer in_place(communicator, Bytes(bytes * static_cast<size_t>(n)), in_arena);
        std::byte* own_part = in_place.data() + bytes * static_cast<size_t>(rank);
        if (bytes > 0) std::memcpy(own_part, mine.data(), bytes);
        communicator.wait(communicator.all_gather(own_part, in_place.data(), bytes));
        ASSERT_TRUE(in_place.content() == from_all);
        // input at the start of the output, which another rank's part overwrites
        if (bytes > 0) std::memcpy(in_place.data(), mine.data(), bytes);
        communicator.wait(communicator.all_gather(in_place.data(), in_place.data(), bytes));
        ASSERT_TRUE(in_place.content() == from_all);

        for (int root = 0; root < n; ++root) {
          Buffer data(communicator, contents(rank, 0, bytes), in_arena);
          communicator.wait(communicator.broadcast(data.data(), bytes, root));
          ASSERT_TRUE(data.content() == contents(root, 0, bytes));

          Buffer gathered(communicator, Bytes(rank == root ? bytes * static_cast<size_t>(n) : 0), in_arena);
          communicator.wait(communicator.gather(in.data(), gathered.data(), bytes, root));
          ASSERT_TRUE(gathered.content() == (rank == root ? from_all : Bytes()));

          Buffer source(communicator, rank == root ? to_all : Bytes(), in_arena);
          Buffer part(communicator, Bytes(bytes), in_arena);
          communicator.wait(communicator.scatter(source.data(), part.data(), bytes, root));
          ASSERT_TRUE(part.content() == contents(root, rank, bytes));
        }

        // uneven parts, some empty
        std::vector<size_t> to(n), from(n);
        Bytes input, expected;
        for (int peer = 0; peer < n; ++peer) {
          to[peer] = bytes * static_cast<size_t>((rank + 2 * peer) % 3) / 2;
          from[peer] = bytes * static_cast<size_t>((peer + 2 * rank) % 3) / 2;
          input = input + contents(rank, peer, to[peer]);
          expected = expected + contents(peer, rank, from[peer]);
        }
        Buffer source(communicator, input, in_arena);
        Buffer target(communicator, Bytes(expected.size()), in_arena);
        communicator.wait(communicator.all_to_all(source.data(), target.data(), to, from));
        ASSERT_TRUE(target.content() == expected);
        const std::vector<size_t> even(n, bytes);
        Buffer swapped(communicator, to_all, in_arena);
        communicator.wait(communicator.all_to_all(swapped.data(), swapped.data(), even, even));
        Bytes exchanged;
        for (int peer = 0; peer < n; ++peer) exchanged = exchanged + contents(peer, rank, bytes);
        ASSERT_TRUE(swapped.content() == exchanged);
      }
      communicator.wait(communicator.barrier("after " + std::to_string(bytes)));
    }
  }));
}

TEST_P(Conformance, messages) {
  RankThreads threads(ranks(), info());
  const int n = ranks();
  expect_no_errors(threads.run([&](int rank, Communicator& communicator) {
    for (size_t bytes : kLengths) {
      for (bool in_arena : {true, false}) {
        std::vector<std::unique_ptr<Buffer>> buffers;
        std::vector<Ticket> tickets;
        for (int peer = 0; peer < n; ++peer) {
          if (peer == rank) continue;
          buffers.push_back(std::make_unique<Buffer>(communicator, contents(rank, peer, bytes), in_arena));
          tickets.push_back(communicator.send(buffers.back()->data(), bytes, peer, 5));
          tickets.push_back(communicator.send(buffers.back()->data(), bytes / 2, peer, 6));
        }
        for (int peer = 0; peer < n; ++peer) {
          if (peer == rank) continue;
          // the later tag first
          Buffer half(communicator, Bytes(bytes / 2), in_arena);
          Buffer whole(communicator, Bytes(bytes), in_arena);
          communicator.wait(communicator.recv(half.data(), bytes / 2, peer, 6));
          communicator.wait(communicator.recv(whole.data(), bytes, peer, 5));
          ASSERT_TRUE(half.content() == contents(peer, rank, bytes / 2));
          ASSERT_TRUE(whole.content() == contents(peer, rank, bytes));
        }
        for (Ticket ticket : tickets) communicator.wait(ticket);
      }
    }
  }));
}

// so many that an acknowledgement also comes between two looks of the sender, who then uses the slot again
TEST(Messages, ManyMoreThanAreVisibleAtATime) {
  constexpr int kCount = 4000;
  RankThreads ranks(2);
  expect_no_errors(ranks.run([](int rank, Communicator& communicator) {
    std::vector<int> values(kCount);
    std::vector<Ticket> tickets;
    for (int i = 0; i < kCount; ++i) {
      values[i] = rank == 0 ? i : -1;
      auto* data = reinterpret_cast<std::byte*>(&values[i]);
      tickets.push_back(rank == 0 ? communicator.send(data, sizeof(int), 1) : communicator.recv(data, sizeof(int), 0));
    }
    for (Ticket ticket : tickets) communicator.wait(ticket, std::chrono::seconds(60));
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(values[i], i);
  }));
}

TEST(CommCases, B091_sizes_survive_the_slot) {
  for (uint64_t bytes : {(uint64_t{1} << 31) - 1, uint64_t{1} << 31, (uint64_t{1} << 32) + 5}) {
    // two readers of different size disagree before the root has come, so that no memory is needed
    RankThreads ranks(3);
    const auto errors = ranks.run([&](int rank, Communicator& communicator) {
      if (rank < 2) communicator.wait(communicator.broadcast(nullptr, bytes + static_cast<uint64_t>(rank), 2));
    });
    for (int rank : {0, 1}) {
      const std::string expected =
          base::text_of("rank 0 broadcast(", bytes, " bytes, root 2), rank 1 broadcast(", bytes + 1, " bytes, root 2)");
      EXPECT_NE(errors[rank].find(expected), std::string::npos) << errors[rank];
    }
  }
}

TEST(CommCases, B091_more_than_2_31_bytes) {
  const size_t bytes = (size_t{1} << 31) + 8;
  if (available_memory() < 4 * bytes) GTEST_SKIP() << "needs " << 4 * bytes << " bytes of free memory";
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "too slow under a sanitizer";
#endif
  RankThreads ranks(2, {}, 3 * bytes);
  const size_t sample = 64 << 20;
  const auto start = std::chrono::steady_clock::now();
  ranks.arena(0).release(ranks.arena(0).allocate(sample));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double expected = took.count() * 2 * static_cast<double>(bytes) / static_cast<double>(sample);
  if (expected > 5) GTEST_SKIP() << "fresh memory comes too slowly here: 4 GiB in " << expected << " s";
  expect_no_errors(ranks.run([&](int rank, Communicator& communicator) {
    std::byte* data = communicator.arena()->allocate(bytes);
    if (rank == 0) {
      data[0] = std::byte{1};
      data[(size_t{1} << 31) - 1] = std::byte{2};
      data[bytes - 1] = std::byte{3};
    }
    communicator.wait(communicator.broadcast(data, bytes, 0));
    EXPECT_EQ(data[0], std::byte{1});
    EXPECT_EQ(data[(size_t{1} << 31) - 1], std::byte{2});
    EXPECT_EQ(data[bytes - 1], std::byte{3});
    communicator.arena()->release(data);
  }));
}

TEST(CommCases, B092_sequence_numbers_pass_2_31_and_2_32) {
  for (uint64_t first : {(uint64_t{1} << 31) - 3, (uint64_t{1} << 32) - 3, (uint64_t{1} << 51) - 3}) {
    GroupInfo info;
    info.first_sequence = first;
    RankThreads ranks(3, info);
    expect_no_errors(ranks.run([&](int rank, Communicator& communicator) {
      for (int i = 0; i < 70; ++i) {
        int64_t value = rank + i;
        communicator.wait(communicator.all_reduce(reinterpret_cast<std::byte*>(&value), 1, DType::I64, ReduceOp::Sum));
        ASSERT_EQ(value, 3 + 3 * i);
      }
      ASSERT_EQ(communicator.next_sequence(), first + 70);
    }));
  }
}

}  // namespace
}  // namespace trireme::shm
