#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

// Sizes and times as people write them.
namespace trireme::base {

/// "25MB" = 25'000'000, "1.5GiB" = 1'610'612'736; units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB in any case; none means
/// bytes; a fraction of a byte is rounded. ConfigError names the text if it is negative, unknown or beyond 64 bits.
int64_t parse_bytes(std::string_view text);

/// "250ms", "30s", "10min", "1.5h"; units ns, us, ms, s, min, h, d, none means seconds. ConfigError as above.
std::chrono::nanoseconds parse_duration(std::string_view text);

/// "512 B", "1.50 GiB": binary units, three significant digits; parse_bytes reads them.
std::string format_bytes(int64_t bytes);

/// "250 us", "3.20 s", "3 min 05 s", "2 h 07 min".
std::string format_duration(double seconds);

}  // namespace trireme::base
