#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// One arena a rank: a sparse, anonymous file (memfd) that every rank of the host maps. Any piece of it is known to all
// by (rank, offset), so peers read and write each other's tensors without a copy. Nothing has a name in a file system:
// after a crash there is nothing to clean.
namespace trireme::shm {

/// One mapping of an arena in this process; shared by all that use it.
class Mapping;

/// Memory that the peers of this host can map. Thread-safe. The memory lives as long as this object or a PeerArena of
/// any process; a child made by fork() does not inherit the mapping and attaches as any other process.
class Arena {
 public:
  /// `capacity` in bytes is address space only: pages are taken when they are allocated. Lowered to the limit on file
  /// sizes (ulimit -f) where that is smaller. Throws SystemError.
  static std::shared_ptr<Arena> create(size_t capacity = default_capacity());

  /// The machine's memory, in bytes.
  static size_t default_capacity();

  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// "PID:FD:SIZE:NONCE" for PeerArena::attach of another rank; any channel may carry it.
  std::string address() const;

  /// `bytes` that are backed by real pages, so that later stores cannot fail; their content is undefined. `alignment`
  /// is a power of two; blocks of 2 MiB and more start on 2 MiB. 0 bytes give a valid block too. Throws SystemError
  /// where the capacity, the memory of the machine or of its control group is exhausted.
  std::byte* allocate(size_t bytes, size_t alignment = 64);

  /// Gives back a block of allocate(). Large blocks go back to the system once more than 64 MiB lie free.
  void release(std::byte* block);

  /// Releases `blocks` once `unused` is true; it is asked at later calls of allocate().
  void release_when(std::function<bool()> unused, std::vector<std::byte*> blocks);

  /// Whether all of [data, data + bytes) lies in this arena.
  bool contains(const void* data, size_t bytes) const;

  /// Requires contains(data, 0).
  uint64_t offset_of(const void* data) const;

  std::byte* base() const;
  size_t capacity() const;

  /// Bytes in blocks that are not released.
  size_t allocated_bytes() const;

 private:
  struct Blocks;
  explicit Arena(std::shared_ptr<Mapping> mapping);

  std::shared_ptr<Mapping> mapping_;
  std::unique_ptr<Blocks> blocks_;
};

/// The addresses of the arenas that `process` has made, for those who come from outside the run.
std::vector<std::string> arenas_of_process(int process);

/// Another rank's arena, mapped here for reading and writing. Ranks may also be threads of one process: they share the
/// owner's mapping.
class PeerArena {
 public:
  /// `address` is Arena::address() of the owner. Throws PeerLostError where the owner has ended or its numbers were
  /// reused, SystemError where its memory cannot be opened (another user or container), DataError where the text is no
  /// address.
  static std::shared_ptr<PeerArena> attach(const std::string& address);

  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;

  std::byte* base() const;
  size_t capacity() const;
  int pid() const { return pid_; }

  /// Readable when the owner has ended; -1 where the kernel has no pidfd and for this process itself.
  int pidfd() const;

  /// Whether the owner has not ended; a zombie has ended.
  bool alive() const;

 private:
  PeerArena(std::shared_ptr<Mapping> mapping, int pid);

  std::shared_ptr<Mapping> mapping_;
  int pid_;
};

}  // namespace trireme::shm
