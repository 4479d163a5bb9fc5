#include "trireme/shm/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::shm {

uint64_t PointToPoint::send(const std::byte* data, size_t bytes, int to, int tag) {
  peers_[to].sends.push_back({next_, data, bytes, tag});
  pending_.insert(next_);
  return next_++;
}

uint64_t PointToPoint::receive(std::byte* data, size_t bytes, int from, int tag) {
  peers_[from].receives.push_back({next_, data, bytes, tag});
  pending_.insert(next_);
  return next_++;
}

bool PointToPoint::advance(const Group& group) {
  if (pending_.empty()) return false;
  bool moved = false;
  for (int peer = 0; peer < group.size; ++peer) {
    if (!peers_[peer].sends.empty()) {
      moved |= finish_sends(group, peer);
      moved |= publish_sends(group, peer);
    }
    if (!peers_[peer].receives.empty()) {
      moved |= collect_arrivals(group, peer);
      moved |= finish_receives(group, peer);
    }
  }
  return moved;
}

// ---- sending -------------------------------------------------------------------------------------------------------

bool PointToPoint::publish_sends(const Group& group, int peer) {
  Peer& state = peers_[peer];
  const auto& received = group.members[peer].block->channel(group.rank).received;
  bool any = false;
  for (Send& send : state.sends) {
    if (send.stamp != 0) continue;
    const uint64_t stamp = state.sent + 1;
    // the slot's last message must have been read
    if (stamp > kMessages && received[stamp % kMessages].load() != stamp - kMessages) break;
    const std::byte* data = send.data;
    if (send.bytes > 0 && !group.arena->contains(data, send.bytes)) {
      send.bounce = group.arena->allocate(send.bytes);
      std::memcpy(send.bounce, data, send.bytes);
      data = send.bounce;
    }
    Message& message = group.own->channel(peer).sent[stamp % kMessages];
    message.bytes = send.bytes;
    message.offset = send.bytes > 0 ? group.arena->offset_of(data) : 0;
    message.tag = send.tag;
    message.stamp.store(stamp, std::memory_order_release);
    group.ring(peer);
    send.stamp = state.sent = stamp;
    any = true;
  }
  return any;
}

bool PointToPoint::finish_sends(const Group& group, int peer) {
  auto& sends = peers_[peer].sends;
  const auto& received = group.members[peer].block->channel(group.rank).received;
  const auto finished = std::erase_if(sends, [&](const Send& send) {
    // a later stamp there says that this one was read before its slot was used again
    if (send.stamp == 0 || received[send.stamp % kMessages].load() < send.stamp) return false;
    if (send.bounce != nullptr) group.arena->release(send.bounce);
    pending_.erase(send.number);
    return true;
  });
  return finished > 0;
}

// ---- receiving -----------------------------------------------------------------------------------------------------

bool PointToPoint::collect_arrivals(const Group& group, int peer) {
  Peer& state = peers_[peer];
  const Member& member = group.members[peer];
  bool any = false;
  for (;;) {
    const uint64_t stamp = state.seen + 1;
    const Message& message = member.block->channel(group.rank).sent[stamp % kMessages];
    if (message.stamp.load() != stamp) return any;
    state.arrivals.push_back({stamp, member.arena->base() + message.offset, message.bytes, message.tag});
    state.seen = stamp;
    any = true;
  }
}

bool PointToPoint::finish_receives(const Group& group, int peer) {
  Peer& state = peers_[peer];
  const auto finished = std::erase_if(state.receives, [&](const Receive& receive) {
    const auto arrival = std::find_if(state.arrivals.begin(), state.arrivals.end(),
                                      [&](const Arrival& candidate) { return candidate.tag == receive.tag; });
    if (arrival == state.arrivals.end()) return false;
    if (arrival->bytes != receive.bytes) {
      throw base::CommError(base::text_of("sender and receiver of group \"", group.name,
                                          "\" disagree: ", group.name_of_rank(peer), " sent ", arrival->bytes,
                                          " bytes with tag ", receive.tag, ", ", group.name_of_rank(group.rank),
                                          " receives ", receive.bytes, "; both must give the same size"));
    }
    if (receive.bytes > 0) std::memcpy(receive.data, arrival->data, receive.bytes);
    group.own->channel(peer).received[arrival->stamp % kMessages].store(arrival->stamp, std::memory_order_release);
    group.ring(peer);
    state.arrivals.erase(arrival);
    pending_.erase(receive.number);
    return true;
  });
  return finished > 0;
}

// ---- for errors ----------------------------------------------------------------------------------------------------

std::vector<int> PointToPoint::awaited() const {
  std::vector<int> waiting;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].sends.empty() || !peers_[peer].receives.empty()) waiting.push_back(static_cast<int>(peer));
  }
  return waiting;
}

std::string PointToPoint::describe(uint64_t number, const Group& group) const {
  for (int peer = 0; peer < group.size; ++peer) {
    for (const Send& send : peers_[peer].sends) {
      if (send.number == number) {
        return base::text_of("send(", send.bytes, " bytes, tag ", send.tag, ") to ", group.name_of_rank(peer));
      }
    }
    for (const Receive& receive : peers_[peer].receives) {
      if (receive.number == number) {
        return base::text_of("recv(", receive.bytes, " bytes, tag ", receive.tag, ") from ", group.name_of_rank(peer));
      }
    }
  }
  TRIREME_CHECK(false, "message ", number);
  return {};
}

std::vector<std::byte*> PointToPoint::blocks() const {
  std::vector<std::byte*> blocks;
  for (const Peer& peer : peers_) {
    for (const Send& send : peer.sends) {
      if (send.bounce != nullptr) blocks.push_back(send.bounce);
    }
  }
  return blocks;
}

}  // namespace trireme::shm
