#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trireme/shm/operation.h"

// The layout of shared memory, docs/shm.md. Every rank writes its own control block only, apart from `users`,
// `doorbell` and the acknowledgements that its peers' receives leave in their own.
namespace trireme::shm {

constexpr size_t kLine = 128;           // two cache lines: processors fetch them in pairs
constexpr uint64_t kSlots = 64;         // collectives that a rank may be ahead of the slowest
constexpr uint64_t kMessages = 32;      // sends to one receiver that it can see at a time
constexpr size_t kLabelBytes = 48;      // with the final 0
constexpr size_t kFailureBytes = 1024;  // with the final 0
constexpr uint64_t kInlineSlots = 8;    // inputs that travel in the control block at a time
constexpr size_t kInlineBytes = 16 << 10;
constexpr int kStepBits = 12;  // of `progress`
constexpr uint64_t kMostPieces = (1 << kStepBits) - 2;

/// Where the bytes lie that the peers read or write.
enum class Where : uint8_t { Nowhere, Arena, Inline, Private };

/// One collective as its rank sees it. `stamp` is its sequence number, stored last: who reads it can read the rest and
/// the input.
struct alignas(kLine) Slot {
  std::atomic<uint64_t> stamp;
  Operation operation;
  base::DType dtype;
  ReduceOp reduce_op;
  Where where;
  int32_t root;
  uint64_t count;   // elements in reductions, else bytes
  uint64_t offset;  // of what the peers read or write: in this rank's arena, or its address if it is private memory
  bool labelled;
  alignas(64) char label[kLabelBytes];  // on a line of its own, which is neither written nor read where there is none
};

/// One send. `stamp` counts from 1 for each receiver, stored last.
struct alignas(64) Message {
  std::atomic<uint64_t> stamp;
  uint64_t bytes;
  uint64_t offset;
  int32_t tag;
};

/// This rank's side of the messages to and from one peer.
struct alignas(kLine) Channel {
  Message sent[kMessages];
  alignas(kLine) std::atomic<uint64_t> received[kMessages];  // stamps of the peer's messages that are read
};

enum class Condition : uint32_t { Open, Left, Failed, Deadline, LostPeer };

struct alignas(kLine) ControlBlock {
  uint64_t magic;
  uint32_t group_size;
  bool joins_fences;  // whether a sleeper's fence_all() reaches the owner

  /// Ranks that may still look at this block; the owner's memory is free at 0.
  alignas(kLine) std::atomic<uint32_t> users;

  /// (sequence << kStepBits | step): up to where this rank is. Step 0 means that it needs no peer's memory for any
  /// collective before `sequence`, step k that k pieces of its slice are ready.
  alignas(kLine) std::atomic<uint64_t> progress;

  /// Threads of this rank that sleep on `doorbell`; on a line of its own, as every peer reads it after each store.
  alignas(kLine) std::atomic<uint32_t> sleepers;
  alignas(kLine) std::atomic<uint32_t> doorbell;

  /// First sequence number whose slots this rank has not compared on all peers: they may overwrite those before.
  alignas(kLine) std::atomic<uint64_t> checked;

  /// Whether this rank can read its peers' private memory (process_vm_readv), and where it lies itself for their try.
  alignas(kLine) std::atomic<bool> reads_private;
  uint64_t address;

  alignas(kLine) std::atomic<Condition> condition;
  int32_t failure_origin;  // rank of the group that failed first; it and the text are stored before `condition`
  char failure[kFailureBytes];

  Slot slots[kSlots];
  alignas(kLine) std::byte inline_data[kInlineSlots][kInlineBytes];

  Slot& slot(uint64_t sequence) { return slots[sequence % kSlots]; }
  std::byte* inline_area(uint64_t sequence) { return inline_data[sequence % kInlineSlots]; }

  /// [group size] all_to_all's bytes to each rank, part of the slot.
  uint64_t* parts(uint64_t sequence) {
    auto* first = reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(this) + sizeof(ControlBlock));
    return first + (sequence % kSlots) * group_size;
  }

  Channel& channel(int peer) {
    auto* first = reinterpret_cast<std::byte*>(this) + channels_offset(group_size);
    return reinterpret_cast<Channel*>(first)[peer];
  }

  static size_t channels_offset(size_t group_size) {
    const size_t end = sizeof(ControlBlock) + kSlots * group_size * sizeof(uint64_t);
    return (end + kLine - 1) / kLine * kLine;
  }
  static size_t bytes(size_t group_size) { return channels_offset(group_size) + group_size * sizeof(Channel); }
};

constexpr uint64_t kControlMagic = 0x33304c5443727454;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<Condition>::is_always_lock_free);
static_assert(sizeof(Slot) == kLine && sizeof(Message) == 64);

}  // namespace trireme::shm
