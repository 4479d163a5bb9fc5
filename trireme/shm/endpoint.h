#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/shm/arena.h"

namespace trireme::shm {

/// This rank's part of a group: a control block in its arena, through which the other ranks learn what it has posted
/// and how far it is. Movable; to be given to a Communicator once every rank's address is known.
class Endpoint {
 public:
  Endpoint(std::shared_ptr<Arena> arena, int group_size);
  ~Endpoint();
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;

  /// Keeps `blocks` of the arena until no rank can look at them any more.
  void keep(std::vector<std::byte*> blocks);

  /// One printable word for all other ranks of the group; any channel may carry it.
  std::string address() const;

  int group_size() const { return group_size_; }
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  std::byte* block() const { return block_; }

 private:
  std::shared_ptr<Arena> arena_;
  std::byte* block_ = nullptr;
  std::vector<std::byte*> kept_;
  int group_size_ = 0;
};

/// Throws CommError for a size below 1, SystemError where the arena is full.
Endpoint make_endpoint(std::shared_ptr<Arena> arena, int group_size);

}  // namespace trireme::shm
