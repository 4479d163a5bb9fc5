#pragma once

#include <cstdint>

// What the kernel says about this process.
namespace trireme::train {

/// Largest resident memory so far, bytes.
int64_t peak_rss_bytes();

/// Resident memory now, pages shared with n processes counted as 1/n, bytes; 0 where the kernel does not say.
int64_t pss_bytes();

/// Seconds since the start of a process, 0: this one.
double seconds_since_start_of(int process);

}  // namespace trireme::train
