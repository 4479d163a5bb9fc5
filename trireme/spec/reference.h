#pragma once

#include <string>
#include <vector>

namespace trireme::spec {

/// docs/configuration.md: every key with type, default, range and meaning, from the same table that parses.
std::string reference_page();

/// Where the meaning of a key differs from DeepSpeed's on purpose, one sentence each.
const std::vector<std::string>& differences_from_deepspeed();

}  // namespace trireme::spec
