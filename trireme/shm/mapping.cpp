#include "trireme/shm/mapping.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>

#include "trireme/base/error.h"

namespace trireme::shm {
namespace {

struct Known {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Mapping>> by_nonce;
};

// never destroyed: a Mapping may outlive the statics of other files
Known& known() {
  static auto* table = new Known;
  return *table;
}

std::byte* map_shared(int fd, size_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    throw base::SystemError(base::text_of("cannot map an arena of shared memory: ", size, " bytes", errno_text(errno),
                                          "; raise the limit on address space (ulimit -v) or take a smaller capacity"));
  }
  // a forked child would otherwise keep the pages alive and could write into a run that is not its own
  ::madvise(base, size, MADV_DONTFORK);
  return static_cast<std::byte*>(base);
}

uint64_t random_nonce() {
  uint64_t nonce = 0;
  while (nonce == 0) {
    if (::getrandom(&nonce, sizeof nonce, 0) < 0 && errno != EINTR) {
      throw base::SystemError("cannot draw a random number" + errno_text(errno));
    }
  }
  return nonce;
}

}  // namespace

std::string errno_text(int error) {
  return ": " + std::generic_category().message(error);
}

Mapping::Mapping(std::byte* base, size_t size, uint64_t nonce, int fd, int pidfd)
    : base_(base), size_(size), nonce_(nonce), process_(::getpid()), fd_(fd), pidfd_(pidfd) {}

Mapping::~Mapping() {
  // in a forked child the addresses were never mapped and may be something else by now
  if (process_ == ::getpid()) ::munmap(base_, size_);
  if (fd_ >= 0) ::close(fd_);
  if (pidfd_ >= 0) ::close(pidfd_);
}

std::shared_ptr<Mapping> Mapping::create(size_t size) {
  const uint64_t nonce = random_nonce();
  const int fd = ::memfd_create("trireme-arena", MFD_CLOEXEC);
  if (fd < 0) throw base::SystemError("cannot create shared memory (memfd_create)" + errno_text(errno));
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    ::close(fd);
    throw base::SystemError(
        base::text_of("cannot size an arena of shared memory: ", size, " bytes", errno_text(error)));
  }
  std::byte* base = nullptr;
  try {
    const ArenaHeader header{kArenaMagic, nonce};
    if (::pwrite(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
      throw base::SystemError("cannot write to shared memory" + errno_text(errno));
    }
    base = map_shared(fd, size);
  } catch (...) {
    ::close(fd);
    throw;
  }
  std::shared_ptr<Mapping> mapping(new Mapping(base, size, nonce, fd, -1));
  std::lock_guard lock(known().mutex);
  known().by_nonce[nonce] = mapping;
  return mapping;
}

std::shared_ptr<Mapping> Mapping::find(uint64_t nonce) {
  std::lock_guard lock(known().mutex);
  auto& table = known().by_nonce;
  std::erase_if(table, [](const auto& entry) { return entry.second.expired(); });
  const auto found = table.find(nonce);
  auto mapping = found == table.end() ? nullptr : found->second.lock();
  return mapping && mapping->process_ == ::getpid() ? mapping : nullptr;
}

std::shared_ptr<Mapping> Mapping::map(int fd, size_t size, uint64_t nonce, int pidfd) {
  std::byte* base = nullptr;
  try {
    base = map_shared(fd, size);
  } catch (...) {
    ::close(fd);
    if (pidfd >= 0) ::close(pidfd);
    throw;
  }
  ::close(fd);
  std::shared_ptr<Mapping> mapping(new Mapping(base, size, nonce, -1, pidfd));
  std::lock_guard lock(known().mutex);
  known().by_nonce[nonce] = mapping;
  return mapping;
}

}  // namespace trireme::shm
