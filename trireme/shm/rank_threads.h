#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "trireme/shm/communicator.h"

// For tests: the ranks of a group as threads of this process.
namespace trireme::shm {

class RankThreads {
 public:
  explicit RankThreads(int size, GroupInfo info = {}, size_t capacity = size_t{1} << 30) : errors_(size) {
    info.global_ranks.resize(size);
    std::iota(info.global_ranks.begin(), info.global_ranks.end(), 0);
    if (info.name.empty()) info.name = "test";
    std::vector<Endpoint> endpoints;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) {
      arenas_.push_back(Arena::create(capacity));
      endpoints.push_back(make_endpoint(arenas_.back(), size));
      addresses.push_back(endpoints.back().address());
    }
    for (int rank = 0; rank < size; ++rank) {
      communicators_.push_back(std::make_unique<Communicator>(std::move(endpoints[rank]), rank, addresses, info));
    }
  }

  int size() const { return static_cast<int>(communicators_.size()); }
  Arena& arena(int rank) { return *arenas_[rank]; }
  std::unique_ptr<Communicator>& communicator(int rank) { return communicators_[rank]; }

  /// Runs `body` once a rank, at the same time. Returns each rank's exception text, empty where none was thrown.
  std::vector<std::string> run(const std::function<void(int rank, Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        errors_[rank].clear();
        try {
          body(rank, *communicators_[rank]);
        } catch (const std::exception& error) {
          errors_[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors_;
  }

 private:
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::string> errors_;
};

}  // namespace trireme::shm
