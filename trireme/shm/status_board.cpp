#include "trireme/shm/status_board.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/process.h"
#include "trireme/base/units.h"
#include "trireme/shm/arena.h"
#include "trireme/shm/status_layout.h"

namespace trireme::shm {
namespace {

using namespace std::chrono_literals;

constexpr auto kHearOfEnd = 500ms;
constexpr uint64_t kOffset = 4096;  // of the board in its arena, whose first page is the header

double seconds_since(int64_t nanoseconds) {
  return static_cast<double>(monotonic_nanoseconds() - nanoseconds) / 1e9;
}

Activity decoded(const ActivityRecord& record) {
  Activity activity;
  activity.step = record.step;
  activity.phase = record.phase.name.data();
  activity.phase_may_be_long = record.phase.may_be_long;
  if (!activity.phase.empty()) activity.phase_seconds = seconds_since(record.phase.since);
  activity.operation = record.wait.operation.data();
  activity.barrier = record.barrier.data();
  if (activity.operation.empty()) return activity;
  activity.group = record.wait.group.data();
  activity.sequence = record.wait.sequence;
  activity.bytes = record.wait.bytes;
  activity.wait_seconds = seconds_since(record.wait.since);
  return activity;
}

void look_at_process(const ProcessRecord& process, RankStatus& status) {
  const auto stat = base::process_stat(status.process);
  if (!stat || stat->start_ticks != process.start_ticks) {
    status.condition = ProcessCondition::Ended;
  } else if (stat->ended()) {
    status.condition = ProcessCondition::Ended;
    if (!status.end) status.end = stat->end;
  } else {
    status.condition = stat->stopped() ? ProcessCondition::Stopped : ProcessCondition::Alive;
  }
}

std::string for_seconds(double seconds) {
  return " for " + base::format_duration(seconds);
}

}  // namespace

StatusBoard::StatusBoard(std::shared_ptr<void> memory, BoardLayout* layout, std::string address)
    : memory_(std::move(memory)), layout_(layout), address_(std::move(address)) {}

std::shared_ptr<StatusBoard> StatusBoard::create(int ranks) {
  const size_t bytes = BoardLayout::bytes(ranks);
  auto arena = Arena::create(kOffset + (bytes + 65535) / 65536 * 65536 + 65536);
  std::byte* block = arena->allocate(bytes, alignof(BoardLayout));
  if (arena->offset_of(block) != kOffset) throw base::InternalError("a status board is not the first of its arena");
  auto* layout = reinterpret_cast<BoardLayout*>(block);  // all zeros, and so are the rows
  layout->ranks = ranks;
  layout->magic = kBoardMagic;
  const std::string address = arena->address();
  return std::shared_ptr<StatusBoard>(new StatusBoard(std::move(arena), layout, address));
}

std::shared_ptr<StatusBoard> StatusBoard::attach(const std::string& address) {
  auto arena = PeerArena::attach(address);
  auto* layout = reinterpret_cast<BoardLayout*>(arena->base() + kOffset);
  if (arena->capacity() < kOffset + sizeof(BoardLayout) || layout->magic != kBoardMagic || layout->ranks < 1 ||
      arena->capacity() < kOffset + BoardLayout::bytes(layout->ranks)) {
    throw base::DataError("no status board at " + address);
  }
  return std::shared_ptr<StatusBoard>(new StatusBoard(std::move(arena), layout, address));
}

std::shared_ptr<StatusBoard> StatusBoard::of_process(pid_t process) {
  const auto stat = base::process_stat(process);
  for (const pid_t maker : {process, stat ? stat->parent : 0}) {
    if (maker <= 0) continue;
    for (const std::string& address : arenas_of_process(maker)) {
      try {
        return attach(address);
      } catch (const base::Error&) {
        continue;  // another arena
      }
    }
  }
  return nullptr;
}

int StatusBoard::ranks() const {
  return layout_->ranks;
}

void StatusBoard::set_watched() {
  layout_->watched = true;
}

void StatusBoard::set_started(int rank, pid_t process) {
  const auto stat = base::process_stat(process);
  layout_->rows()[rank].process.store({process, stat ? stat->start_ticks : 0});
}

void StatusBoard::set_ended(int rank, int end) {
  layout_->rows()[rank].end = int64_t{1} + end;
}

std::optional<RankStatus> StatusBoard::find(int rank) const {
  if (rank >= ranks()) return {};
  RankStatus status = read(rank);
  if (status.process == 0) return {};
  return status;
}

RankStatus StatusBoard::read(int rank) const {
  const StatusRow& row = layout_->rows()[rank];
  RankStatus status;
  status.rank = rank;
  const ProcessRecord process = row.process.load().value_or(ProcessRecord{});
  status.process = static_cast<pid_t>(process.process);
  if (status.process != 0) {
    for (const auto start = std::chrono::steady_clock::now();;) {
      if (const int64_t end = row.end; end != 0) status.end = static_cast<int>(end - 1);
      look_at_process(process, status);
      const bool how_is_known = status.condition != ProcessCondition::Ended || status.end;
      if (how_is_known || !layout_->watched || std::chrono::steady_clock::now() - start > kHearOfEnd) break;
      std::this_thread::sleep_for(1ms);
    }
  }
  status.activity = decoded(row.activity.load().value_or(ActivityRecord{}));
  status.failure = row.failure.load().value_or(FailureRecord{}).text.data();
  return status;
}

std::string condition_text(const RankStatus& status) {
  switch (status.condition) {
    case ProcessCondition::NotSeen:
      return "not seen on this host";
    case ProcessCondition::Stopped:
      return "alive, stopped";
    case ProcessCondition::Ended:
      return status.end ? base::end_text(*status.end) : "ended";
    case ProcessCondition::Alive:
      break;
  }
  const Activity& now = status.activity;
  return now.operation.empty() ? "alive, computing, not in a collective" : "alive, " + waiting_text(now);
}

std::string waiting_text(const Activity& activity) {
  return base::text_of("waiting in ", activity.operation, " ", activity.sequence, " of group '", activity.group, "'",
                       for_seconds(activity.wait_seconds));
}

std::string rank_text(const RankStatus& status) {
  const std::string process = status.process == 0 ? "" : base::text_of(" (process ", status.process, ")");
  const std::string activity = activity_text(status);
  return base::text_of("rank ", status.rank, process, ": ", condition_text(status), activity.empty() ? "" : ", in ",
                       activity);
}

std::string barriers_text(const StatusBoard& board, const std::vector<int>& ranks) {
  constexpr size_t most = 16;
  std::string text;
  bool any = false;
  for (size_t i = 0; i < ranks.size() && i < most; ++i) {
    if (ranks[i] >= board.ranks()) continue;
    const std::string label = board.read(ranks[i]).activity.barrier;
    any |= !label.empty();
    text += base::text_of(text.empty() ? "" : ", ", "rank ", ranks[i], label.empty() ? " none" : " '" + label + "'");
  }
  if (ranks.size() > most) text += ", …";
  return any ? "; last barriers passed: " + text : "";
}

std::string activity_text(const RankStatus& status) {
  const Activity& now = status.activity;
  const std::string step = now.step == 0 ? "" : base::text_of("step ", now.step);
  if (now.phase.empty()) return step;
  return base::text_of(step, step.empty() ? "" : ", ", now.phase, for_seconds(now.phase_seconds));
}

}  // namespace trireme::shm
