#pragma once

#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "trireme/launch/line_buffer.h"
#include "trireme/launch/output_queue.h"

namespace trireme::launch {

/// The pipes that carry one rank's stdout and stderr to the launcher's queues, and its log file.
class RankOutput {
 public:
  /// `log_path` empty: no log file. `said` is shared by all ranks. The queues and `said` must live longer. Throws
  /// base::SystemError.
  RankOutput(const std::string& prefix, const std::string& log_path, OutputQueue& output, OutputQueue& errors,
             SaidLines& said);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// What the rank is started with; close_in_launcher() once it is.
  int output_for_rank() const { return streams_[0].write_end; }
  int errors_for_rank() const { return streams_[1].write_end; }
  void close_in_launcher();

  /// Adds what to wait for: nothing where the pipe has ended or its queue is full.
  void add_to(std::vector<pollfd>& polled) const;

  /// Reads what has come on `fd`, if it is one of this rank's.
  void read_from(int fd);

  /// Somebody may still write.
  bool open() const { return streams_[0].read_end >= 0 || streams_[1].read_end >= 0; }

  /// Passes on unfinished lines and gives up the pipes.
  void finish();

 private:
  struct Stream {
    int read_end = -1;
    int write_end = -1;
    LineBuffer lines;
    OutputQueue* queue;
  };

  void write_log(const char* data, size_t size);

  std::array<Stream, 2> streams_;
  std::string log_path_;
  int log_ = -1;
};

}  // namespace trireme::launch
