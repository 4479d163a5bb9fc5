#pragma once

#include <functional>

namespace trireme::cli {

/// Runs `action` and returns its result; an exception becomes a few lines on stderr and an exit code. The only place
/// where that happens. base::Error: its text, seven lines at most, and its code; base::InternalError and foreign
/// exceptions: the first line and 1 (libtorch puts a stack trace below it).
///
/// A rank that Trireme's launcher started and that failed because it lost a peer ends with
/// launch::peer_lost_exit_code, so that the launcher names the peer.
int guarded(const std::function<int()>& action);

}  // namespace trireme::cli
