#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

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
  friend class StatusPhase;
  friend class StatusWait;

  std::shared_ptr<StatusBoard> board_;
  StatusRow* row_;
  std::mutex mutex_;
  ActivityRecord told_;
};

/// While it lives, its rank is in this phase; afterwards in the one before. Nothing where `writer` is null; so too
/// below. Texts are cut to what the layout holds.
class StatusPhase {
 public:
  StatusPhase(std::shared_ptr<RankStatusWriter> writer, std::string_view name, bool may_be_long = false);
  ~StatusPhase();
  StatusPhase(const StatusPhase&) = delete;
  StatusPhase& operator=(const StatusPhase&) = delete;

 private:
  std::shared_ptr<RankStatusWriter> writer_;
  PhaseRecord before_;
};

/// While it lives, its rank waits for this operation.
class StatusWait {
 public:
  StatusWait(std::shared_ptr<RankStatusWriter> writer, std::string_view operation, std::string_view group,
             uint64_t sequence, uint64_t bytes);
  ~StatusWait();
  StatusWait(const StatusWait&) = delete;
  StatusWait& operator=(const StatusWait&) = delete;

 private:
  std::shared_ptr<RankStatusWriter> writer_;
  WaitRecord before_;
};

}  // namespace trireme::shm
