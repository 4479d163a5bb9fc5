#include "trireme/shm/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/shm/memory_limit.h"
#include "trireme/shm/ranges.h"

namespace trireme::shm {
namespace {

constexpr size_t kMiB = 1 << 20;

TEST(Ranges, AddMergesAndRemoveSplits) {
  Ranges ranges;
  ranges.add(0, 10);
  ranges.add(20, 30);
  ranges.add(10, 20);
  EXPECT_EQ(ranges.total(), 30u);
  EXPECT_EQ(std::distance(ranges.begin(), ranges.end()), 1);
  ranges.remove(5, 7);
  ranges.remove(29, 40);
  EXPECT_EQ(ranges.total(), 27u);
  const auto parts = ranges.within(4, 8);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], (std::pair<uint64_t, uint64_t>(4, 5)));
  EXPECT_EQ(parts[1], (std::pair<uint64_t, uint64_t>(7, 8)));
  ranges.add(0, 30);
  EXPECT_EQ(ranges.total(), 30u);
}

TEST(Arena, BlocksAreAlignedDisjointAndReused) {
  auto arena = Arena::create(64 * kMiB);
  std::byte* small = arena->allocate(100);
  std::byte* large = arena->allocate(3 * kMiB);
  std::byte* empty = arena->allocate(0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(arena->offset_of(large) % (2 * kMiB), 0u);
  EXPECT_NE(empty, small);
  EXPECT_EQ(arena->offset_of(arena->allocate(10, 4096)) % 4096, 0u);
  EXPECT_TRUE(arena->contains(large, 3 * kMiB));
  int outside = 0;
  EXPECT_FALSE(arena->contains(&outside, sizeof outside));
  EXPECT_FALSE(arena->contains(arena->base() + arena->capacity() - 1, 2));
  arena->release(large);
  EXPECT_EQ(arena->allocate(3 * kMiB), large);
}

TEST(Arena, RandomBlocksKeepTheirContent) {
  auto arena = Arena::create(32 * kMiB);
  struct Block {
    std::byte* data;
    size_t bytes;
    int value;
  };
  std::vector<Block> blocks;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    if (blocks.size() > 40 || (!blocks.empty() && random() % 3 == 0)) {
      const size_t which = random() % blocks.size();
      const Block block = blocks[which];
      for (size_t at = 0; at < block.bytes; at += 997) ASSERT_EQ(block.data[at], std::byte(block.value));
      arena->release(block.data);
      blocks.erase(blocks.begin() + static_cast<long>(which));
    } else {
      const size_t bytes = 1 + random() % (random() % 8 == 0 ? 400'000 : 3000);
      Block block{arena->allocate(bytes), bytes, static_cast<int>(random() % 256)};
      std::memset(block.data, block.value, bytes);
      blocks.push_back(block);
    }
  }
  for (const Block& block : blocks) arena->release(block.data);
  EXPECT_EQ(arena->allocated_bytes(), 0u);
  arena->release(arena->allocate(29 * kMiB));  // all is one piece again
}

TEST(Arena, ManyThreadsAllocate) {
  auto arena = Arena::create(64 * kMiB);
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 0; i < 200; ++i) {
        std::byte* block = arena->allocate(5000);
        std::memset(block, id, 5000);
        EXPECT_EQ(block[4999], std::byte(id));
        arena->release(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena->allocated_bytes(), 0u);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

TEST(Arena, FullIsOneClearError) {
  auto arena = Arena::create(8 * kMiB);
  std::byte* half = arena->allocate(3 * kMiB);
  EXPECT_THROW(arena->allocate(6 * kMiB), base::SystemError);
  EXPECT_NE(error_of([&] { arena->allocate(6 * kMiB); }).find("the arena of shared memory is full"), std::string::npos);
  EXPECT_NE(error_of([&] { arena->allocate(9 * kMiB); }).find("larger than its arena"), std::string::npos);
  arena->release(half);
  arena->release(arena->allocate(5 * kMiB));
}

TEST(Arena, MoreThanTheMachineHasIsRefusedBeforeItIsTouched) {
  auto arena = Arena::create(4 * Arena::default_capacity());
  const std::string text = error_of([&] { arena->allocate(2 * Arena::default_capacity()); });
  EXPECT_NE(text.find("not enough memory for a block of shared memory"), std::string::npos) << text;
  EXPECT_EQ(arena->allocated_bytes(), 0u);
  EXPECT_GT(available_memory(), 0u);
}

TEST(Arena, LargeFreeBlocksGoBackToTheSystem) {
  auto arena = Arena::create(400 * kMiB);
  const std::string path = [&] {
    const std::string address = arena->address();
    const size_t first = address.find(':');
    return "/proc/self/fd/" + address.substr(first + 1, address.find(':', first + 1) - first - 1);
  }();
  const auto resident = [&] {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return static_cast<size_t>(status.st_blocks) * 512;
  };
  std::byte* a = arena->allocate(100 * kMiB);
  EXPECT_GE(resident(), 100 * kMiB);
  arena->release(a);
  EXPECT_LT(resident(), 2 * kMiB);
  std::byte* b = arena->allocate(50 * kMiB);
  arena->release(b);
  EXPECT_GE(resident(), 50 * kMiB);  // kept: it will be wanted again
  EXPECT_EQ(arena->allocate(50 * kMiB), b);
}

TEST(PeerArena, AThreadSharesTheMapping) {
  auto arena = Arena::create(4 * kMiB);
  auto peer = PeerArena::attach(arena->address());
  EXPECT_EQ(peer->base(), arena->base());
  EXPECT_TRUE(peer->alive());
  std::byte* block = arena->allocate(8);
  arena.reset();
  block[0] = std::byte{1};  // the peer keeps the memory
}

TEST(PeerArena, AForkedChildMapsTheMemoryByItsAddress) {
  auto arena = Arena::create(4 * kMiB);
  std::byte* block = arena->allocate(8);
  block[0] = std::byte{1};
  const std::string address = arena->address();
  const uint64_t offset = arena->offset_of(block);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto peer = PeerArena::attach(address);
    const bool seen = peer->base()[offset] == std::byte{1} && peer->pid() == ::getppid() && peer->alive();
    peer->base()[offset] = std::byte{2};
    ::_exit(seen ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[0], std::byte{2});
}

TEST(PeerArena, AnEndedOwnerAndAReusedNumberAreToldApartFromNonsense) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto arena = Arena::create(4 * kMiB);
    const std::string address = arena->address();
    if (::write(pipe[1], address.data(), address.size()) < 0) ::_exit(1);
    ::_exit(0);
  }
  char text[128] = {};
  ASSERT_GT(::read(pipe[0], text, sizeof text - 1), 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_THROW(PeerArena::attach(text), base::PeerLostError);

  auto arena = Arena::create(4 * kMiB);
  std::string other = arena->address();
  other.back() = other.back() == '1' ? '2' : '1';
  EXPECT_THROW(PeerArena::attach(other), base::PeerLostError);
  for (const char* nonsense : {"", "1", "1:2:3", "1:2:3:4x", "-1:2:8192:4", "a:b:c:d", "1:2:18446744073709551615:4"}) {
    EXPECT_THROW(PeerArena::attach(nonsense), base::DataError) << nonsense;
  }
}

}  // namespace
}  // namespace trireme::shm
