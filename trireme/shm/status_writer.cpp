#include "trireme/shm/status_writer.h"

#include <unistd.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::shm {
namespace {

template <size_t Size>
void put(std::array<char, Size>& field, std::string_view text) {
  field.fill(0);
  std::copy_n(text.data(), std::min(text.size(), Size - 1), field.data());
}

PhaseRecord phase_now(std::string_view name, bool may_be_long) {
  PhaseRecord phase{.may_be_long = may_be_long, .since = monotonic_nanoseconds()};
  put(phase.name, name);
  return phase;
}

WaitRecord wait_now(std::string_view operation, std::string_view group, uint64_t sequence, uint64_t bytes) {
  WaitRecord wait{.sequence = sequence, .bytes = bytes, .since = monotonic_nanoseconds()};
  put(wait.operation, operation);
  put(wait.group, group);
  return wait;
}

}  // namespace

RankStatusWriter::RankStatusWriter(std::shared_ptr<StatusBoard> board, int rank) : board_(std::move(board)) {
  if (rank < 0 || rank >= board_->ranks())
    throw base::CommError(base::text_of("rank ", rank, " has no row on a status board of ", board_->ranks(), " ranks"));
  row_ = board_->layout_->rows() + rank;
  board_->set_started(rank, ::getpid());
}

void RankStatusWriter::set_step(int64_t step) {
  exchange(&ActivityRecord::step, step);
}

void RankStatusWriter::set_barrier(std::string_view label) {
  decltype(ActivityRecord::barrier) barrier{};
  put(barrier, label);
  exchange(&ActivityRecord::barrier, barrier);
}

void RankStatusWriter::set_failure(std::string_view text) {
  std::lock_guard lock(mutex_);
  FailureRecord failure;
  put(failure.text, text);
  row_->failure.store(failure);
}

StatusPhase::StatusPhase(std::shared_ptr<RankStatusWriter> writer, std::string_view name, bool may_be_long)
    : StatusScope(std::move(writer), phase_now(name, may_be_long)) {}

StatusWait::StatusWait(std::shared_ptr<RankStatusWriter> writer, std::string_view operation, std::string_view group,
                       uint64_t sequence, uint64_t bytes)
    : StatusScope(std::move(writer), wait_now(operation, group, sequence, bytes)) {}

}  // namespace trireme::shm
