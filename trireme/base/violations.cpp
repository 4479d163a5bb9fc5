#include "trireme/base/violations.h"

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::base {

void Violations::add(const std::string& path, const std::string& message) {
  lines_.push_back(path.empty() ? message : path + ": " + message);
}

std::string Violations::text() const {
  return joined(lines_, "\n");
}

void Violations::throw_if_any() const {
  if (!empty()) throw ConfigError(text());
}

}  // namespace trireme::base
