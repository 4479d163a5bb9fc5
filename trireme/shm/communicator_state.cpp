#include "trireme/shm/communicator_state.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/base/process.h"
#include "trireme/base/units.h"
#include "trireme/shm/wait.h"

namespace trireme::shm {

constexpr std::chrono::seconds kExcused{30};  // between two looks at ranks that may take long

void Communicator::State::throw_if_failed() const {
  if (!failure) return;
  if (failure->condition == Condition::LostPeer) throw base::PeerLostError(failure->text);
  if (failure->condition == Condition::Deadline) throw base::DeadlineError(failure->text);
  throw base::CommError(failure->text);
}

void Communicator::State::fail(Condition condition, const std::string& text, int origin) {
  failure = Failure{condition, text};
  const size_t length = std::min(text.size(), kFailureBytes - 1);
  std::memcpy(group.own->failure, text.data(), length);
  group.own->failure[length] = 0;
  group.own->failure_origin = origin;
  if (info.status) info.status->set_failure(text);
  group.own->condition.store(condition);
  group.ring_all();
  group.ring(group.rank);
  throw_if_failed();
  __builtin_unreachable();
}

bool Communicator::State::advance() {
  throw_if_failed();
  bool moved = false;
  try {
    moved = collectives.advance(group);
    moved |= messages.advance(group);
  } catch (const base::PeerLostError& error) {
    fail(Condition::LostPeer, error.what(), group.rank);
  } catch (const base::CommError& error) {
    fail(Condition::Failed, error.what(), group.rank);
  } catch (const base::SystemError& error) {
    fail(Condition::Failed,
         base::text_of(group.name_of_rank(group.rank), " of group \"", group.name, "\" cannot go on: ", error.what()),
         group.rank);
  }
  // another thread of this rank may sleep for what has just become done
  if (moved) group.ring(group.rank);
  return moved;
}

std::vector<int> Communicator::State::awaited() const {
  std::vector<int> peers = collectives.awaited(group);
  for (int peer : messages.awaited()) {
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  return peers;
}

// Fails where a peer that is waited for has ended, left or failed. What it did before must be taken in first, so each
// finding counts only if the peer is still waited for after another advance().
void Communicator::State::look_at_peers(Clock::time_point now) {
  const bool look_at_processes = now >= next_look;
  if (look_at_processes) next_look = now + kSleep;
  struct Finding {
    int peer;
    bool ended;
    Condition condition;
  };
  std::vector<Finding> findings;
  for (int peer : awaited()) {
    const Condition condition = group.members[peer].block->condition.load();
    const bool ended = look_at_processes && !group.members[peer].arena->alive();
    if (ended || condition != Condition::Open) findings.push_back({peer, ended, condition});
  }
  if (findings.empty()) return;
  advance();
  const std::vector<int> still = awaited();
  std::erase_if(findings, [&](const Finding& finding) {
    return std::find(still.begin(), still.end(), finding.peer) == still.end();
  });
  if (findings.empty()) return;
  // a death is the cause, other ranks' failures may be its echo
  const auto first = std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.ended; });
  const Finding finding = first == findings.end() ? findings.front() : *first;
  const ControlBlock& theirs = *group.members[finding.peer].block;
  const std::string who =
      base::text_of(group.name_of_rank(finding.peer), " (process ", group.members[finding.peer].arena->pid(), ")");
  switch (finding.condition) {
    case Condition::Open: {
      const auto status = status_of(finding.peer);
      const bool how = status && status->end;
      const std::string activity = status ? activity_text(*status) : "";
      fail(Condition::LostPeer,
           base::text_of(who, " ", how ? base::end_text(*status->end) : "ended", " during ", pending_text(),
                         activity.empty() ? "" : "; it was in ", activity),
           group.rank);
    }
    case Condition::Left:
      fail(Condition::Failed, who + " left group \"" + group.name + "\" before " + pending_text() + " was done",
           finding.peer);
    case Condition::Failed:
    case Condition::Deadline:
    case Condition::LostPeer: {
      const bool echo = theirs.failure_origin != finding.peer;
      fail(finding.condition, echo ? theirs.failure : who + " failed first: " + theirs.failure, theirs.failure_origin);
    }
  }
}

// what is waited for: the oldest collective, else any message
std::string Communicator::State::pending_text() const {
  if (collectives.empty()) return base::text_of("a send or recv of group \"", group.name, "\"");
  const Collective& oldest = collectives.oldest();
  return base::text_of(describe(oldest.call, group), " seq ", oldest.sequence, " of group \"", group.name, "\"");
}

std::vector<int> Communicator::State::absentees() const {
  std::vector<int> peers = collectives.awaited(group);
  std::erase_if(peers, [&](int peer) { return collectives.oldest().parts[peer].entered; });
  return peers;
}

std::string Communicator::State::deadline_text(Ticket ticket, nanoseconds limit) const {
  const std::string within = " within " + base::format_duration(std::chrono::duration<double>(limit).count());
  if (ticket.point_to_point) {
    return base::text_of(messages.describe(ticket.number, group), " of group \"", group.name, "\" was not answered",
                         within, "; raise the timeout if the rank is only slow");
  }
  const std::vector<int> absent = absentees();
  std::string text;
  if (!absent.empty()) {
    text = group.names_of(absent) + " did not enter " + pending_text() + within;
    for (int peer : absent) {
      const auto status = status_of(peer);
      uint64_t last = 0;
      for (const Slot& slot : group.members[peer].block->slots) last = std::max(last, slot.stamp.load());
      text += "; " + (status ? rank_text(*status) + ", " : group.name_of_rank(peer) + " ");
      text += last == 0 ? "entered none so far" : base::text_of("last entered seq ", last);
    }
  } else {
    text = "all awaited ranks entered " + pending_text() + ", but " + group.names_of(collectives.awaited(group)) +
           " did not complete it" + within;
    for (int peer : collectives.awaited(group)) {
      if (const auto status = status_of(peer)) text += "; " + rank_text(*status);
    }
  }
  if (info.status) text += barriers_text(info.status->board(), group.global_ranks);
  return text + " (waited: " + group.name_of_rank(group.rank) + "); raise the timeout if the rank is only slow";
}

std::optional<RankStatus> Communicator::State::status_of(int peer) const {
  return info.status ? info.status->board().find(group.global_ranks[peer]) : std::nullopt;
}

bool Communicator::State::excused() const {
  std::string who;
  for (int peer : awaited()) {
    const auto status = status_of(peer);
    const bool busy = status && status->condition == ProcessCondition::Alive && status->activity.operation.empty() &&
                      status->activity.phase_may_be_long;
    if (!busy) return false;
    who += (who.empty() ? "" : "; ") + rank_text(*status);
  }
  if (who.empty()) return false;
  base::log_warning(group.name_of_rank(group.rank), " goes on waiting beyond its deadline in ", pending_text(), " for ",
                    who);
  return true;
}

std::unique_ptr<StatusWait> Communicator::State::tell_wait(Ticket ticket) const {
  if (!info.status) return nullptr;
  if (ticket.point_to_point || collectives.empty()) {
    return std::make_unique<StatusWait>(info.status, "send or recv", group.name, ticket.number, 0);
  }
  const Collective& oldest = collectives.oldest();
  return std::make_unique<StatusWait>(info.status, name_of(oldest.call.operation), group.name, oldest.sequence,
                                      std::max(oldest.shared_bytes, oldest.out_bytes));
}

// ---- posting and waiting -------------------------------------------------------------------------------------------

Ticket Communicator::State::post(Collective&& collective) {
  std::lock_guard lock(mutex);
  throw_if_failed();
  collective.method =
      group.table.choose(collective.call.operation, std::max(collective.shared_bytes, collective.out_bytes));
  if (collective.method.algorithm == Algorithm::Push) collective.peers_write = true;
  if (collective.method.algorithm == Algorithm::Inline) collective.peers_write = collective.in_arena = false;
  const Ticket ticket{collectives.post(std::move(collective), group), false};
  advance();
  return ticket;
}

void Communicator::State::wait(Ticket ticket, nanoseconds limit) {
  std::unique_lock lock(mutex);
  advance();
  if (done(ticket)) return;
  const auto start = Clock::now();
  auto quiet_since = start;
  ControlBlock& own = *group.own;
  std::unique_ptr<StatusWait> told;
  for (;;) {
    const bool moved = advance();
    if (done(ticket)) return;
    const auto now = Clock::now();
    if (moved) quiet_since = now;
    const auto quiet = now - quiet_since;
    if (quiet < kSpin) {
      pause_core();
      continue;
    }
    if (!told) told = tell_wait(ticket);
    look_at_peers(now);
    if (now - start >= limit && !done(ticket) && !awaited().empty()) {
      if (excused()) {
        limit = now - start + kExcused;
        continue;
      }
      const bool someone_absent = !ticket.point_to_point && !absentees().empty();
      fail(someone_absent ? Condition::Deadline : Condition::Failed, deadline_text(ticket, limit), group.rank);
    }
    if (quiet < kYield) {
      lock.unlock();
      ::sched_yield();
      lock.lock();
      continue;
    }
    // announced before the last look: whoever stores after it sees the sleeper and rings
    struct Sleeper {
      std::atomic<uint32_t>& count;
      explicit Sleeper(std::atomic<uint32_t>& sleepers) : count(sleepers) { count.fetch_add(1); }
      ~Sleeper() { count.fetch_sub(1); }
    } sleeper(own.sleepers);
    if (!group.fenced) fence_all();
    const uint32_t bell = own.doorbell.load();
    if (advance() || done(ticket)) {
      quiet_since = Clock::now();
      continue;
    }
    lock.unlock();
    futex_wait(own.doorbell, bell, std::min<nanoseconds>(kSleep, limit - (now - start)));
    lock.lock();
    quiet_since = Clock::now();
  }
}

}  // namespace trireme::shm
