#pragma once

#include <set>
#include <string>
#include <vector>

#include "trireme/base/violations.h"
#include "trireme/spec/keys.h"

namespace trireme::spec {

/// Which keys a file had.
struct Given {
  std::set<std::string> paths;  // with a value of their own; whether it was legal is in the violations
  std::set<std::string> autos;  // with the value "auto"
  std::set<std::string> wrong;  // with an illegal value

  bool has(const std::string& path) const { return paths.count(path) != 0; }
};

/// Checks `object`, whose keys begin with `prefix` ("" or "model."), against the table and writes the values of built
/// keys into the draft. `skip` are keys of the top level that someone else reads.
void parse_block(const KeyTable& table, const base::Json& object, const std::string& prefix,
                 const std::vector<std::string>& skip, Draft& draft, Given& given, base::Violations& violations);

/// Adds a violation for each given key below `block` that the value `type` of the block does not have.
void check_applies(const KeyTable& table, const std::string& block, const std::string& type, const Given& given,
                   base::Violations& violations);

}  // namespace trireme::spec
