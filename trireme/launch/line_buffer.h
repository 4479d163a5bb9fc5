#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace trireme::launch {

class LineBuffer;

/// Which rank said an "error: " or "warning: " line first. What fails on all ranks alike is then told once.
class SaidLines {
 public:
  /// Whether `line` is such a line and another rank was first.
  bool is_echo(const std::string& line, const LineBuffer& rank);

 private:
  std::unordered_map<std::string, const LineBuffer*> first_;
};

/// Turns a rank's output as it arrives into whole lines, each with the rank's prefix, so that lines of several ranks do
/// not mix. Bytes are passed on as they are. A carriage return ends a line too: progress bars stay live. With an empty
/// prefix everything is passed on at once. Echoes of other ranks' lines in `said` are left out.
class LineBuffer {
 public:
  explicit LineBuffer(std::string prefix, SaidLines* said = nullptr) : prefix_(std::move(prefix)), said_(said) {}

  /// Appends to `out` the lines that `bytes` completes. A line longer than 1 MiB is passed on in parts, between which
  /// other ranks' lines may come.
  void add(std::string_view bytes, std::string& out);

  /// Appends an unfinished last line, closed with a newline.
  void finish(std::string& out);

 private:
  std::string prefix_;
  SaidLines* said_;
  std::string line_;               // what came since the last line end
  bool inside_long_line_ = false;  // the prefix and a part of this line are out already
  bool after_return_ = false;      // the last byte passed on was '\r'
};

}  // namespace trireme::launch
