#include "trireme/shm/process_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace trireme::shm {
namespace {

constexpr size_t kMost = 1 << 30;  // one call moves less than 2 GiB

}  // namespace

bool can_read_process(int pid, uint64_t address, uint64_t expected) {
  uint64_t value = 0;
  return read_process(pid, address, reinterpret_cast<std::byte*>(&value), sizeof value) && value == expected;
}

bool read_process(int pid, uint64_t address, std::byte* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t length = std::min(kMost, bytes - done);
    const iovec local{to + done, length};
    const iovec remote{reinterpret_cast<void*>(address + done), length};
    const ssize_t moved = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace trireme::shm
