#pragma once

#include <string>
#include <string_view>

namespace trireme::launch {

/// Turns a rank's output as it arrives into whole lines, each with the rank's prefix, so that lines of several ranks do
/// not mix. Bytes are passed on as they are. A carriage return ends a line too: progress bars stay live. With an empty
/// prefix everything is passed on at once.
class LineBuffer {
 public:
  explicit LineBuffer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Appends to `out` the lines that `bytes` completes. A line longer than 1 MiB is passed on in parts, between which
  /// other ranks' lines may come.
  void add(std::string_view bytes, std::string& out);

  /// Appends an unfinished last line, closed with a newline.
  void finish(std::string& out);

 private:
  std::string prefix_;
  std::string line_;               // what came since the last line end
  bool inside_long_line_ = false;  // the prefix and a part of this line are out already
  bool after_return_ = false;      // the last byte passed on was '\r'
};

}  // namespace trireme::launch
