#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/comm/group_state.h"
#include "trireme/shm/status_board.h"

// What a transport's exception means: which ranks are to blame, and what they were doing.
namespace trireme::comm {
namespace {

// gloo reports a timeout on every rank alike. Each rank that sees one leaves a mark in the store; whoever leaves none
// within a short while has not entered the operation. Nothing if the store does not answer: its process is stopped.
std::optional<std::vector<int>> ranks_without_mark(const GroupState& group) {
  using namespace std::chrono_literals;
  const auto patience = std::min<std::chrono::milliseconds>(group.timeout, 2s);
  std::promise<std::vector<int>> answer;
  auto future = answer.get_future();
  std::thread([answer = std::move(answer), store = group.store, ranks = group.ranks, rank = group.rank,
               sequence = group.sequence, patience]() mutable {
    try {
      const auto key = [&](size_t r) { return base::text_of("late/", sequence, "/", r); };
      store->set(key(static_cast<size_t>(rank)), std::string("1"));
      std::this_thread::sleep_for(patience);
      std::vector<int> absent;
      for (size_t r = 0; r < ranks.size(); ++r)
        if (!store->check({key(r)})) absent.push_back(ranks[r]);
      answer.set_value(absent);
    } catch (...) {
      answer.set_exception(std::current_exception());
    }
  }).detach();
  if (future.wait_for(patience + 3s) != std::future_status::ready) return std::nullopt;
  return future.get();
}

std::optional<shm::RankStatus> status_of(const GroupState& group, int rank) {
  return group.status ? group.status->board().find(rank) : std::nullopt;
}

// The ranks of this host that have ended; a connection breaks a little before its process is seen to end.
std::string ended_ranks(const GroupState& group) {
  using namespace std::chrono_literals;
  std::string text;
  for (const auto start = std::chrono::steady_clock::now(); text.empty();) {
    for (int rank : group.ranks) {
      const auto status = status_of(group, rank);
      if (status && status->condition == shm::ProcessCondition::Ended) text += "; " + shm::rank_text(*status);
    }
    if (std::chrono::steady_clock::now() - start > 500ms) break;
    std::this_thread::sleep_for(10ms);
  }
  return text;
}

// What the board shows of world ranks.
std::string board_text(const GroupState& group, const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) {
    if (const auto status = status_of(group, rank)) text += "; " + shm::rank_text(*status);
  }
  return group.status ? text + shm::barriers_text(group.status->board(), group.ranks) : text;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += base::text_of(text.empty() ? "" : ", ", rank);
  return text;
}

// As one of base's errors, with what can be known of the ranks that are to blame.
[[noreturn]] void explain_deadline(const GroupState& group, const std::string& timed_out_text) {
  std::optional<std::vector<int>> absent;
  try {
    absent = ranks_without_mark(group);
  } catch (const std::exception&) {
    throw base::PeerLostError(timed_out_text + " and the store is gone: rank 0 has ended" + ended_ranks(group));
  }
  if (!absent)
    throw base::DeadlineError(timed_out_text +
                              "; the rank that keeps the store does not answer either: it is stopped, or its host "
                              "gone" +
                              board_text(group, {0}));
  if (absent->empty()) throw base::CommError(timed_out_text + ": all ranks entered it, it did not complete");
  throw base::DeadlineError(timed_out_text + "; ranks that did not arrive: " + list_of(*absent) +
                            board_text(group, *absent));
}

}  // namespace

void GroupState::explain(const std::string& what, std::chrono::milliseconds limit) {
  try {
    explain_unreported(what, limit);
  } catch (const std::exception& error) {
    if (status) status->set_failure(error.what());
    throw;
  }
}

void GroupState::explain_unreported(const std::string& what, std::chrono::milliseconds limit) {
  std::string text;
  try {
    throw;
  } catch (const base::Error&) {
    throw;
  } catch (const base::InternalError&) {
    throw;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    text = error.what();
  }
  text = text.substr(0, text.find('\n'));
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (says("imed out") || says("timeout"))
    explain_deadline(*this, base::text_of(what, " timed out after ", limit.count(), " ms"));
  if (says("onnection") || says("Broken pipe") || says("EOF"))
    throw base::PeerLostError(what + " failed: a peer ended or its connection broke" + ended_ranks(*this));
  throw base::CommError(base::text_of(what, " failed: ", text));
}

}  // namespace trireme::comm
