#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::shm {

/// Whether this process may read the memory of process `pid`: tried with the 8 bytes at `address`, which must be
/// `expected`. The same user may, unless yama's ptrace_scope, a seccomp filter or a container forbids it.
bool can_read_process(int pid, uint64_t address, uint64_t expected);

/// Copies `bytes` at `address` of process `pid` to `to`. False where the process has ended or the memory is gone.
bool read_process(int pid, uint64_t address, std::byte* to, size_t bytes);

}  // namespace trireme::shm
