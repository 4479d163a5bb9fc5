#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::base {

/// Everything that is wrong with a configuration, collected so that it can be said at once.
class Violations {
 public:
  /// `path` as in "optimizer.params.lr"; empty for the configuration as a whole.
  void add(const std::string& path, const std::string& message);
  bool empty() const { return lines_.empty(); }
  size_t size() const { return lines_.size(); }
  /// One line a violation, "path: message", in the order of discovery, no final newline.
  std::string text() const;
  /// Throws ConfigError(text()) unless empty.
  void throw_if_any() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace trireme::base
