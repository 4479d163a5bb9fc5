#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/shm/arena.h"
#include "trireme/shm/communicator.h"
#include "trireme/shm/endpoint.h"
#include "trireme/shm/status_writer.h"

// For tests: ranks as processes, watched as a launcher watches them.
namespace trireme::shm {

/// Forks `size` ranks; `body` returns the exit code. Returns what waitpid() gives for each rank.
inline std::vector<int> run_processes(
    int size, const std::function<int(int rank, Communicator&)>& body,
    const std::function<void(int rank)>& prepare = [](int) {}) {
  struct Meeting {
    std::atomic<int> arrived;
    char addresses[8][256];
  };
  void* memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* meeting = new (memory) Meeting{};
  auto board = StatusBoard::create(size);
  board->set_watched();
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 99;
      try {
        prepare(rank);
        Endpoint endpoint = make_endpoint(Arena::create(256 << 20), size);
        std::strncpy(meeting->addresses[rank], endpoint.address().c_str(), 255);
        GroupInfo info{"world", {}};
        info.status = std::make_shared<RankStatusWriter>(StatusBoard::attach(board->address()), rank);
        meeting->arrived.fetch_add(1);
        while (meeting->arrived.load() < size) ::usleep(100);
        std::vector<std::string> addresses;
        for (int peer = 0; peer < size; ++peer) {
          info.global_ranks.push_back(peer);
          addresses.emplace_back(meeting->addresses[peer]);
        }
        Communicator communicator(std::move(endpoint), rank, addresses, info);
        code = body(rank, communicator);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  std::vector<int> ends(children.size());
  for (int left = size; left > 0;) {
    int end = 0;
    const pid_t child = ::waitpid(-1, &end, 0);
    for (int rank = 0; rank < size; ++rank) {
      if (children[rank] != child) continue;
      ends[rank] = end;
      board->set_ended(rank, end);
      --left;
    }
  }
  ::munmap(memory, sizeof(Meeting));
  return ends;
}

}  // namespace trireme::shm
