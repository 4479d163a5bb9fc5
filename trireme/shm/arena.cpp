#include "trireme/shm/arena.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/process.h"
#include "trireme/shm/mapping.h"
#include "trireme/shm/memory_limit.h"
#include "trireme/shm/ranges.h"

namespace trireme::shm {
namespace {

constexpr uint64_t kBigPage = 2 << 20;         // alignment of large blocks
constexpr uint64_t kGrain = 64 << 10;          // smallest piece taken from the system
constexpr uint64_t kFill = 16 << 20;           // a signal can undo one fallocate, so it must not be long
constexpr uint64_t kAskFirst = 16 << 20;       // from here on the system is asked whether it has that much
constexpr uint64_t kFreePagesKept = 64 << 20;  // fresh pages cost ten times a reused one

uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}
uint64_t round_down(uint64_t value, uint64_t unit) {
  return value / unit * unit;
}

// real pages now: a later store into memory that the system does not have would be SIGBUS
void fill(int fd, uint64_t begin, uint64_t end) {
  if (end - begin >= kAskFirst) {
    const uint64_t available = available_memory();
    if (end - begin > available) {
      throw base::SystemError(base::text_of("not enough memory for a block of shared memory: ", end - begin,
                                            " bytes wanted, ", available,
                                            " available; use fewer ranks, a smaller batch or a larger memory limit"));
    }
  }
  for (uint64_t at = begin; at < end;) {
    const uint64_t length = std::min(kFill, end - at);
    if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(length)) == 0) {
      at += length;
    } else if (errno != EINTR) {
      throw base::SystemError(base::text_of("the system refused ", end - begin, " bytes of shared memory",
                                            errno_text(errno),
                                            "; use fewer ranks, a smaller batch or a larger memory limit"));
    }
  }
}

}  // namespace

struct Arena::Blocks {
  struct Waiting {
    std::function<bool()> unused;
    std::vector<std::byte*> blocks;
  };
  std::mutex mutex;
  Ranges free;
  Ranges holes;  // free and without pages
  std::unordered_map<uint64_t, uint64_t> sizes;
  uint64_t allocated = 0;
  std::vector<Waiting> waiting;
};

size_t Arena::default_capacity() {
  return static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

std::shared_ptr<Arena> Arena::create(size_t capacity) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0) capacity = std::min<uint64_t>(capacity, limit.rlim_cur);
  capacity = round_down(capacity, kPage);
  if (capacity < kPage + kGrain) {
    throw base::SystemError(base::text_of("an arena of shared memory needs at least ", kPage + kGrain,
                                          " bytes: ", capacity, " given; raise the limit on file sizes (ulimit -f)"));
  }
  return std::shared_ptr<Arena>(new Arena(Mapping::create(capacity)));
}

Arena::Arena(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)), blocks_(std::make_unique<Blocks>()) {
  blocks_->free.add(kPage, mapping_->size());
  blocks_->holes.add(kPage, mapping_->size());
}

Arena::~Arena() = default;

std::string Arena::address() const {
  return base::text_of(::getpid(), ':', mapping_->fd(), ':', mapping_->size(), ':', mapping_->nonce());
}

std::byte* Arena::allocate(size_t bytes, size_t alignment) {
  TRIREME_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0, "alignment ", alignment);
  std::vector<std::byte*> returned;
  {
    std::lock_guard lock(blocks_->mutex);
    std::erase_if(blocks_->waiting, [&](const auto& entry) {
      if (!entry.unused()) return false;
      returned.insert(returned.end(), entry.blocks.begin(), entry.blocks.end());
      return true;
    });
  }
  for (std::byte* block : returned) release(block);

  if (bytes > capacity()) {
    throw base::SystemError(
        base::text_of("a block is larger than its arena of shared memory: ", bytes, " bytes, ", capacity(), " in all"));
  }
  const uint64_t unit = std::max<uint64_t>(alignment, bytes >= kBigPage ? kBigPage : 64);
  const uint64_t size = round_up(std::max<uint64_t>(bytes, 1), 64);
  std::lock_guard lock(blocks_->mutex);
  Ranges& free = blocks_->free;
  uint64_t begin = 0;
  for (const auto& [from, to] : free) {
    const uint64_t aligned = round_up(from, unit);
    if (aligned <= to && to - aligned >= size) {
      begin = aligned;
      break;
    }
  }
  if (begin == 0) {
    throw base::SystemError(base::text_of("the arena of shared memory is full: ", bytes, " bytes wanted, ",
                                          blocks_->allocated, " of ", capacity(), " in use"));
  }
  const uint64_t from = round_down(begin, kPage);
  for (auto [hole, hole_end] : blocks_->holes.within(from, round_up(begin + size, kPage))) {
    // small requests take more than they need, so that not each one enters the kernel
    if (hole_end - hole < kGrain) hole_end = blocks_->holes.within(hole, hole + kGrain).front().second;
    fill(mapping_->fd(), hole, hole_end);
    blocks_->holes.remove(hole, hole_end);
  }
  free.remove(begin, begin + size);
  blocks_->sizes.emplace(begin, size);
  blocks_->allocated += size;
  return mapping_->base() + begin;
}

void Arena::release(std::byte* block) {
  const uint64_t begin = offset_of(block);
  std::lock_guard lock(blocks_->mutex);
  const auto found = blocks_->sizes.find(begin);
  TRIREME_CHECK(found != blocks_->sizes.end(), "no block at offset ", begin);
  const uint64_t size = found->second;
  blocks_->sizes.erase(found);
  blocks_->allocated -= size;
  blocks_->free.add(begin, begin + size);
  if (size < kBigPage || blocks_->free.total() - blocks_->holes.total() <= kFreePagesKept) return;
  const uint64_t from = round_up(begin, kPage);
  const uint64_t to = round_down(begin + size, kPage);
  const int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (::fallocate(mapping_->fd(), how, static_cast<off_t>(from), static_cast<off_t>(to - from)) == 0) {
    blocks_->holes.add(from, to);
  }
}

void Arena::release_when(std::function<bool()> unused, std::vector<std::byte*> blocks) {
  std::lock_guard lock(blocks_->mutex);
  blocks_->waiting.push_back({std::move(unused), std::move(blocks)});
}

bool Arena::contains(const void* data, size_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(mapping_->base());
  const auto at = reinterpret_cast<uintptr_t>(data);
  return at >= begin && at - begin <= mapping_->size() && bytes <= mapping_->size() - (at - begin);
}

uint64_t Arena::offset_of(const void* data) const {
  TRIREME_CHECK(contains(data, 0), "address ", data);
  return static_cast<uint64_t>(static_cast<const std::byte*>(data) - mapping_->base());
}

std::byte* Arena::base() const {
  return mapping_->base();
}
size_t Arena::capacity() const {
  return mapping_->size();
}

size_t Arena::allocated_bytes() const {
  std::lock_guard lock(blocks_->mutex);
  return blocks_->allocated;
}

// ---- a peer's arena ------------------------------------------------------------------------------------------------
namespace {

struct ParsedAddress {
  int pid = 0;
  int fd = 0;
  uint64_t size = 0;
  uint64_t nonce = 0;
};

ParsedAddress parse(const std::string& address) {
  ParsedAddress parsed;
  const char* at = address.data();
  const char* end = at + address.size();
  auto number = [&](auto& value, bool last) {
    const auto [stop, error] = std::from_chars(at, end, value);
    const bool good = error == std::errc() && (last ? stop == end : stop != end && *stop == ':');
    if (!good) throw base::DataError("not an address of shared memory: \"" + address + "\"");
    at = stop + (last ? 0 : 1);
  };
  number(parsed.pid, false);
  number(parsed.fd, false);
  number(parsed.size, false);
  number(parsed.nonce, true);
  if (parsed.pid <= 0 || parsed.fd < 0 || parsed.size < kPage || parsed.size > std::numeric_limits<off_t>::max()) {
    throw base::DataError("not an address of shared memory: \"" + address + "\"");
  }
  return parsed;
}

[[noreturn]] void throw_ended(int pid) {
  throw base::PeerLostError(base::text_of("process ", pid, " has ended or has given up its shared memory"));
}

int open_memory(const ParsedAddress& parsed) {
  const std::string path = base::text_of("/proc/", parsed.pid, "/fd/", parsed.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT || error == ESRCH || error == ENXIO) throw_ended(parsed.pid);
    throw base::SystemError(base::text_of("cannot open the shared memory of process ", parsed.pid, " (", path, ")",
                                          errno_text(error),
                                          "; run all ranks as one user in one container that lets them see each other "
                                          "in /proc, or use the gloo backend"));
  }
  ArenaHeader header{};
  struct stat status {};
  const bool same = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                    static_cast<uint64_t>(status.st_size) == parsed.size &&
                    ::pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) &&
                    header.magic == kArenaMagic && header.nonce == parsed.nonce;
  if (!same) {
    ::close(fd);
    throw_ended(parsed.pid);
  }
  return fd;
}

}  // namespace

std::vector<std::string> arenas_of_process(int process) {
  std::vector<std::string> addresses;
  for (const auto& file : base::open_files(process)) {
    std::error_code no_link;
    if (!std::filesystem::read_symlink(file, no_link).string().starts_with("/memfd:trireme-arena")) continue;
    ArenaHeader header{};
    std::ifstream memory(file, std::ios::binary);
    const auto size = std::filesystem::file_size(file, no_link);
    if (!memory.read(reinterpret_cast<char*>(&header), sizeof header) || header.magic != kArenaMagic) continue;
    addresses.push_back(base::text_of(process, ':', file.filename().string(), ':', size, ':', header.nonce));
  }
  return addresses;
}

std::shared_ptr<PeerArena> PeerArena::attach(const std::string& address) {
  const ParsedAddress parsed = parse(address);
  auto mapping = Mapping::find(parsed.nonce);
  if (!mapping) {
    // before the memory is opened: if the nonce then fits, this is the owner's
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, parsed.pid, 0));
    if (pidfd < 0 && errno == ESRCH) throw_ended(parsed.pid);
    int memory = -1;
    try {
      memory = open_memory(parsed);
    } catch (...) {
      if (pidfd >= 0) ::close(pidfd);
      throw;
    }
    mapping = Mapping::map(memory, parsed.size, parsed.nonce, pidfd);
  }
  return std::shared_ptr<PeerArena>(new PeerArena(std::move(mapping), parsed.pid));
}

PeerArena::PeerArena(std::shared_ptr<Mapping> mapping, int pid) : mapping_(std::move(mapping)), pid_(pid) {}

std::byte* PeerArena::base() const {
  return mapping_->base();
}
size_t PeerArena::capacity() const {
  return mapping_->size();
}

int PeerArena::pidfd() const {
  return mapping_->pidfd();
}

bool PeerArena::alive() const {
  if (pid_ == ::getpid()) return true;
  if (pidfd() >= 0) {
    pollfd poll{pidfd(), POLLIN, 0};
    return ::poll(&poll, 1, 0) <= 0;
  }
  const auto stat = base::process_stat(pid_);
  return stat && !stat->ended();
}

}  // namespace trireme::shm
