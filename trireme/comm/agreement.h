#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"

// All ranks go on, or none does. No torch: any means of exchange will do.
namespace trireme::comm {

/// Sends a string to all ranks and returns everyone's by rank.
using GatherStrings = std::function<std::vector<std::string>(const std::string&)>;

/// What made a rank fail, known to every rank.
struct Failure {
  enum class Kind { System, Usage, Config, Data, NonFinite, Comm, PeerLost, Internal } kind = Kind::System;
  int rank = 0;  // in the group
  std::string text;
};

/// Runs `action` on this rank and gives its result to all: the results by rank. If it threw on any rank, every rank
/// throws the Failure of the first such rank. Errors of the exchange itself (a dead peer) pass through, but not where
/// this rank failed before: then its own error does.
std::vector<base::Json> agree(const GatherStrings& gather, const std::function<base::Json()>& action);

/// Throws the error of base that the failure was, with another text.
[[noreturn]] void throw_error(const Failure& failure, const std::string& text);

}  // namespace trireme::comm
