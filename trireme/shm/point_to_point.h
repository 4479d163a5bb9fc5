#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "trireme/shm/group.h"

namespace trireme::shm {

/// Sends and receives of this rank that are not finished. A send publishes where its bytes lie; the receiver copies
/// them and acknowledges. The caller locks.
class PointToPoint {
 public:
  explicit PointToPoint(int group_size) : peers_(static_cast<size_t>(group_size)) {}

  /// Both return a number for done().
  uint64_t send(const std::byte* data, size_t bytes, int to, int tag);
  uint64_t receive(std::byte* data, size_t bytes, int from, int tag);

  /// Returns whether anything happened. Throws CommError where sender and receiver disagree on the bytes, SystemError
  /// where the arena has no room for a copy.
  bool advance(const Group& group);

  bool done(uint64_t number) const { return !pending_.contains(number); }
  bool empty() const { return pending_.empty(); }

  /// The peers that unfinished sends and receives wait for.
  std::vector<int> awaited() const;

  /// "recv(1024 bytes, tag 3) from rank 2". Requires that it is not done.
  std::string describe(uint64_t number, const Group& group) const;

  /// Blocks of the arena that unfinished sends hold.
  std::vector<std::byte*> blocks() const;

 private:
  struct Send {
    uint64_t number;
    const std::byte* data;
    size_t bytes;
    int tag;
    uint64_t stamp = 0;  // 0: the peer cannot see it yet
    std::byte* bounce = nullptr;
  };
  struct Receive {
    uint64_t number;
    std::byte* data;
    size_t bytes;
    int tag;
  };
  struct Arrival {
    uint64_t stamp;
    const std::byte* data;
    uint64_t bytes;
    int tag;
  };
  struct Peer {
    std::deque<Send> sends;
    std::deque<Receive> receives;
    std::deque<Arrival> arrivals;  // without a receive so far
    uint64_t sent = 0;             // stamp of the last send that the peer can see
    uint64_t seen = 0;             // stamp of its last send that is in `arrivals`
  };

  bool publish_sends(const Group& group, int peer);
  bool finish_sends(const Group& group, int peer);
  bool collect_arrivals(const Group& group, int peer);
  bool finish_receives(const Group& group, int peer);

  std::vector<Peer> peers_;
  std::set<uint64_t> pending_;
  uint64_t next_ = 1;
};

}  // namespace trireme::shm
