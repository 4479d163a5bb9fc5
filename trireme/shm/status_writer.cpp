#include "trireme/shm/status_writer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"

namespace trireme::shm {
namespace {

int64_t monotonic_nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

template <size_t Size>
void put(std::array<char, Size>& field, std::string_view text) {
  field.fill(0);
  std::copy_n(text.data(), std::min(text.size(), Size - 1), field.data());
}

}  // namespace

RankStatusWriter::RankStatusWriter(std::shared_ptr<StatusBoard> board, int rank) : board_(std::move(board)) {
  if (rank < 0 || rank >= board_->ranks())
    throw base::CommError(base::text_of("rank ", rank, " has no row on a status board of ", board_->ranks(), " ranks"));
  row_ = board_->layout_->rows() + rank;
  board_->set_started(rank, ::getpid());
}

void RankStatusWriter::set_step(int64_t step) {
  std::lock_guard lock(mutex_);
  told_.step = step;
  row_->activity.store(told_);
}

void RankStatusWriter::set_barrier(std::string_view label) {
  std::lock_guard lock(mutex_);
  put(told_.barrier, label);
  row_->activity.store(told_);
}

void RankStatusWriter::set_failure(std::string_view text) {
  std::lock_guard lock(mutex_);
  FailureRecord failure;
  put(failure.text, text);
  row_->failure.store(failure);
}

StatusPhase::StatusPhase(std::shared_ptr<RankStatusWriter> writer, std::string_view name, bool may_be_long)
    : writer_(std::move(writer)) {
  if (!writer_) return;
  std::lock_guard lock(writer_->mutex_);
  PhaseRecord& phase = writer_->told_.phase;
  before_ = phase;
  put(phase.name, name);
  phase.may_be_long = may_be_long;
  phase.since = monotonic_nanoseconds();
  writer_->row_->activity.store(writer_->told_);
}

StatusPhase::~StatusPhase() {
  if (!writer_) return;
  std::lock_guard lock(writer_->mutex_);
  writer_->told_.phase = before_;
  writer_->row_->activity.store(writer_->told_);
}

StatusWait::StatusWait(std::shared_ptr<RankStatusWriter> writer, std::string_view operation, std::string_view group,
                       uint64_t sequence, uint64_t bytes)
    : writer_(std::move(writer)) {
  if (!writer_) return;
  std::lock_guard lock(writer_->mutex_);
  WaitRecord& wait = writer_->told_.wait;
  before_ = wait;
  put(wait.operation, operation);
  put(wait.group, group);
  wait.sequence = sequence;
  wait.bytes = bytes;
  wait.since = monotonic_nanoseconds();
  writer_->row_->activity.store(writer_->told_);
}

StatusWait::~StatusWait() {
  if (!writer_) return;
  std::lock_guard lock(writer_->mutex_);
  writer_->told_.wait = before_;
  writer_->row_->activity.store(writer_->told_);
}

}  // namespace trireme::shm
