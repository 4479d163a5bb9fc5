#pragma once

#include <string>

namespace trireme::cli {

/// Prints what every rank of a run on this host is doing now: a table, or one JSON document. `run` is a run folder, or
/// the number of the launcher's or first rank's process. With `watch` again each second until the run ends. A run
/// folder where nothing runs says how far it came. Returns 0; throws UsageError where `run` is neither.
int print_status(const std::string& run, bool json, bool watch);

}  // namespace trireme::cli
