#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme::shm {

/// What is written in an arena's first page, so that a reused process or file number cannot be taken for it.
struct ArenaHeader {
  uint64_t magic;
  uint64_t nonce;
};
constexpr uint64_t kArenaMagic = 0x314d48536d727454;  // "TtrmSHM1"
constexpr size_t kPage = 4096;

/// One mapping of an arena in this process. Ranks that are threads share it: one table of pages, and a thread sanitizer
/// sees all accesses at one address.
class Mapping {
 public:
  /// A new arena of `size` bytes. Throws SystemError.
  static std::shared_ptr<Mapping> create(size_t size);

  /// The arena with this nonce if this process maps it already, else null.
  static std::shared_ptr<Mapping> find(uint64_t nonce);

  /// Maps the open file of a peer; takes both descriptors. Throws SystemError.
  static std::shared_ptr<Mapping> map(int fd, size_t size, uint64_t nonce, int pidfd);

  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* base() const { return base_; }
  size_t size() const { return size_; }
  uint64_t nonce() const { return nonce_; }
  int fd() const { return fd_; }        // of the memory; -1 in peers
  int pidfd() const { return pidfd_; }  // of the owner; -1 in itself and where the kernel has none

 private:
  Mapping(std::byte* base, size_t size, uint64_t nonce, int fd, int pidfd);

  std::byte* base_;
  size_t size_;
  uint64_t nonce_;
  int process_;  // that made this mapping
  int fd_;
  int pidfd_;
};

/// errno as ": Permission denied".
std::string errno_text(int error);

}  // namespace trireme::shm
