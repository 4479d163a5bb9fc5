#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/world.h"

// Ranks for tests.
namespace trireme::test {

/// Runs `body` on `size` ranks, each a thread of this process, and returns when all have ended. The first exception
/// (by rank) is rethrown. Ranks share the process's default generator: what draws from it belongs into processes.
void run_ranks(int size, const std::string& backend, const std::function<void(comm::World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(20));

/// What each rank threw, empty where it ended well.
std::vector<std::string> errors_of_ranks(int size, const std::string& backend,
                                         const std::function<void(comm::World&)>& body,
                                         std::chrono::milliseconds timeout = std::chrono::seconds(20));

/// The same with ranks as forked processes; call it before this process has made threads or ran a backward. `body`
/// returns the exit code. Returns each rank's exit code, 128 + signal if it was killed; all are ended after `limit`.
std::vector<int> run_processes(int size, const std::string& backend, const std::function<int(comm::World&)>& body,
                               std::chrono::milliseconds timeout = std::chrono::seconds(20),
                               std::chrono::seconds limit = std::chrono::seconds(60));

}  // namespace trireme::test
