#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// What every rank of a host is doing, in shared memory: peers read it when a wait takes too long, `trireme status` from
// outside. Whoever starts the ranks makes the board and tells it how they ended.
namespace trireme::shm {

class StatusBoard;
struct BoardLayout;

/// What a rank has told, status_writer.h.
struct Activity {
  int64_t step = 0;
  std::string phase;               // empty: none
  bool phase_may_be_long = false;  // saving, evaluating: peers wait beyond their deadline
  double phase_seconds = 0;        // since it began, so too below
  std::string operation;           // that it waits for; empty: none
  std::string group;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  double wait_seconds = 0;
  std::string barrier;  // label of the last one that it passed
};

enum class ProcessCondition { NotSeen, Alive, Stopped, Ended };

struct RankStatus {
  int rank = 0;
  pid_t process = 0;  // 0: not started, or on another host
  ProcessCondition condition = ProcessCondition::NotSeen;
  std::optional<int> end;  // how it ended, as waitpid() gives it
  Activity activity;
  std::string failure;  // its first error
};

/// "alive, stopped", "was killed by signal 9 (SIGKILL)", "alive, computing, not in a collective", "alive, waiting in
/// all_reduce 7 of group 'tp' for 3 s", …
std::string condition_text(const RankStatus& status);

/// "rank 1 (process 77): alive, stopped, in step 12, forward for 5.1 s"
std::string rank_text(const RankStatus& status);

/// "; last barriers passed: rank 0 'epoch 2', rank 1 none" of these ranks; empty where none has passed one.
std::string barriers_text(const StatusBoard& board, const std::vector<int>& ranks);

/// "waiting in all_reduce 7 of group 'tp' for 3 s"; requires that it waits.
std::string waiting_text(const Activity& activity);

/// "step 12, forward for 5.1 s"; empty where it has told nothing.
std::string activity_text(const RankStatus& status);

/// A row for each rank of the run. Thread-safe.
class StatusBoard {
 public:
  /// Throws SystemError.
  static std::shared_ptr<StatusBoard> create(int ranks);

  /// `address` as address() gave it to another process of this host. Throws what PeerArena::attach throws, DataError
  /// where there is no board.
  static std::shared_ptr<StatusBoard> attach(const std::string& address);

  /// The board that `process` or the process that started it has made; null where neither has, or it may not be read.
  static std::shared_ptr<StatusBoard> of_process(pid_t process);

  const std::string& address() const { return address_; }
  int ranks() const;

  /// By who started the ranks. Where ends will be told, readers wait for them.
  void set_watched();
  void set_started(int rank, pid_t process);
  void set_ended(int rank, int end);

  /// Of a rank that has just ended and is watched, waits up to half a second to hear how.
  RankStatus read(int rank) const;

  /// read(), but empty for a rank that has no row here or has not been started on this host.
  std::optional<RankStatus> find(int rank) const;

 private:
  friend class RankStatusWriter;
  StatusBoard(std::shared_ptr<void> memory, BoardLayout* layout, std::string address);

  std::shared_ptr<void> memory_;
  BoardLayout* layout_;
  std::string address_;
};

}  // namespace trireme::shm
