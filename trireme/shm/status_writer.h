#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/shm/status_board.h"
#include "trireme/shm/status_layout.h"

namespace trireme::shm {

/// A rank's own row of the board. Thread-safe.
class RankStatusWriter {
 public:
  /// The calling process is that of `rank` from now on. Throws CommError where the board has no such rank.
  RankStatusWriter(std::shared_ptr<StatusBoard> board, int rank);

  const StatusBoard& board() const { return *board_; }
  void set_step(int64_t step);
  void set_barrier(std::string_view label);
  void set_failure(std::string_view text);

 private:
  template <class Record, Record ActivityRecord::*part>
  friend class StatusScope;

  /// Tells `now` of a part of the activity. Returns what was told before.
  template <class Record>
  Record exchange(Record ActivityRecord::*part, const Record& now) {
    std::lock_guard lock(mutex_);
    const Record before = std::exchange(told_.*part, now);
    row_->activity.store(told_);
    return before;
  }

  std::shared_ptr<StatusBoard> board_;
  StatusRow* row_;
  std::mutex mutex_;
  ActivityRecord told_;
};

/// While it lives, its rank tells `now` of a part of its activity; afterwards what was told before. Nothing where
/// `writer` is null. Texts are cut to what the layout holds.
template <class Record, Record ActivityRecord::*part>
class StatusScope {
 public:
  StatusScope(std::shared_ptr<RankStatusWriter> writer, const Record& now) : writer_(std::move(writer)) {
    if (writer_) before_ = writer_->exchange(part, now);
  }
  ~StatusScope() {
    if (writer_) writer_->exchange(part, before_);
  }
  StatusScope(const StatusScope&) = delete;
  StatusScope& operator=(const StatusScope&) = delete;

 private:
  std::shared_ptr<RankStatusWriter> writer_;
  Record before_;
};

/// Its rank is in this phase.
struct StatusPhase : StatusScope<PhaseRecord, &ActivityRecord::phase> {
  StatusPhase(std::shared_ptr<RankStatusWriter> writer, std::string_view name, bool may_be_long = false);
};

/// Its rank waits for this operation.
struct StatusWait : StatusScope<WaitRecord, &ActivityRecord::wait> {
  StatusWait(std::shared_ptr<RankStatusWriter> writer, std::string_view operation, std::string_view group,
             uint64_t sequence, uint64_t bytes);
};

}  // namespace trireme::shm
