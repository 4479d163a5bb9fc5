#pragma once

#include <cstdint>

namespace trireme::shm {

/// Bytes that this process can still take before the machine or one of its control groups (version 2) runs out.
uint64_t available_memory();

}  // namespace trireme::shm
