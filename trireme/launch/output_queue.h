#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::launch {

/// What waits to be written to one of the launcher's own outputs. Writing never blocks where poll says that the
/// descriptor is ready, so a reader that pauses (a pager) does not stop the launcher from seeing signals and failures.
class OutputQueue {
 public:
  explicit OutputQueue(int fd);

  int fd() const { return fd_; }
  std::string& end() { return bytes_; }  ///< append here
  bool empty() const { return written_ == bytes_.size(); }
  /// So much is waiting that the ranks should be left waiting too.
  bool full() const { return bytes_.size() - written_ > (4u << 20); }
  /// Nobody reads any more (a closed pipe, a full disk); what is appended is dropped.
  bool broken() const { return error_ != 0; }
  int error() const { return error_; }  ///< errno of the write that failed; 0: none

  /// Writes a part; call it when poll reports the descriptor writable.
  void write_some();

 private:
  void drop();

  int fd_;
  size_t part_;  // bytes that one write() takes without blocking
  std::string bytes_;
  size_t written_ = 0;
  int error_ = 0;
};

/// Both descriptors lead to the same file, pipe or terminal: then one queue keeps the lines of both whole.
bool same_file(int a, int b);

}  // namespace trireme::launch
