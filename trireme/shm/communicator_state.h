#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/shm/collective_queue.h"
#include "trireme/shm/communicator.h"
#include "trireme/shm/point_to_point.h"
#include "trireme/shm/status_writer.h"

namespace trireme::shm {

/// The first error of a rank's member of a group; every later call throws it again.
struct Failure {
  Condition condition;
  std::string text;
};

/// What a Communicator holds. The functions want `mutex` held, unless they say so.
struct Communicator::State {
  using Clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

  State(Endpoint own, GroupInfo given)
      : info(std::move(given)),
        endpoint(std::move(own)),
        collectives(info.first_sequence),
        messages(endpoint.group_size()) {}

  void throw_if_failed() const;

  /// Remembers and throws the error and tells the peers. `origin` is the rank (of the group) that failed first.
  [[noreturn]] void fail(Condition condition, const std::string& text, int origin);

  /// Moves what can move; returns whether anything did.
  bool advance();

  bool done(Ticket ticket) const {
    return ticket.point_to_point ? messages.done(ticket.number) : collectives.done(ticket.number);
  }

  /// Fails where a peer that is waited for has ended, left or failed.
  void look_at_peers(Clock::time_point now);

  /// Locks itself.
  Ticket post(Collective&& collective);
  void wait(Ticket ticket, nanoseconds limit);

  std::vector<int> awaited() const;
  std::string pending_text() const;
  std::vector<int> absentees() const;  // that have not entered the oldest collective
  std::string deadline_text(Ticket ticket, nanoseconds limit) const;

  std::optional<RankStatus> status_of(int peer) const;  // empty without a board

  /// Whether all that are awaited are alive in a phase that may be long; says so.
  bool excused() const;

  /// Tells the board what is waited for.
  std::unique_ptr<StatusWait> tell_wait(Ticket ticket) const;

  std::mutex mutex;
  GroupInfo info;
  Endpoint endpoint;
  Group group;
  CollectiveQueue collectives;
  PointToPoint messages;
  std::optional<Failure> failure;
  Clock::time_point next_look = Clock::now();  // at the peers' processes
};

}  // namespace trireme::shm
