#include "trireme/launch/line_buffer.h"

namespace trireme::launch {

bool SaidLines::is_echo(const std::string& line, const LineBuffer& rank) {
  constexpr size_t most = 1000;  // a rank that warns without end must not fill the memory
  if (!line.starts_with("error: ") && !line.starts_with("warning: ")) return false;
  const auto known = first_.find(line);
  if (known != first_.end()) return known->second != &rank;
  if (first_.size() < most) first_.emplace(line, &rank);
  return false;
}

void LineBuffer::add(std::string_view bytes, std::string& out) {
  constexpr size_t longest = 1 << 20;
  if (prefix_.empty()) {
    out += bytes;
    return;
  }
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') {  // "\r\n" is one line end
      out += '\n';
      bytes.remove_prefix(1);
      after_return_ = false;
      continue;
    }
    after_return_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(piece.size());
    if (end == std::string_view::npos && line_.size() + piece.size() < longest) {
      line_ += piece;
      return;
    }
    line_ += piece;
    if (inside_long_line_)
      out += line_;
    else if (!said_ || !said_->is_echo(line_, *this))
      out += prefix_ + line_;
    line_.clear();
    inside_long_line_ = end == std::string_view::npos;
    after_return_ = piece.back() == '\r';
  }
}

void LineBuffer::finish(std::string& out) {
  if (prefix_.empty()) return;
  if (!line_.empty() && !inside_long_line_) out += prefix_;
  out += line_;
  if (!line_.empty() || inside_long_line_ || after_return_) out += '\n';
  line_.clear();
  inside_long_line_ = after_return_ = false;
}

}  // namespace trireme::launch
