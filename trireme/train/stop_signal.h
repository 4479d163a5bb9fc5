#pragma once

namespace trireme::train {

/// While it lives, SIGINT and SIGTERM only set a flag, so that the step that runs is finished and saved. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const { return received() != 0; }
  /// The signal's number, 0 if there was none.
  int received() const;
};

}  // namespace trireme::train
