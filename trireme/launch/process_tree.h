#pragma once

#include <sys/types.h>

#include <vector>

namespace trireme::launch {

/// Children of `parent`, their children and so on, as /proc shows them now; zombies are left out. With
/// PR_SET_CHILD_SUBREAPER set in `parent` nothing that a descendant starts can leave this tree. `except` and what is
/// below it is not reported.
std::vector<pid_t> descendants(pid_t parent, const std::vector<pid_t>& except);

}  // namespace trireme::launch
