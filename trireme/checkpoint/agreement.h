#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/checkpoint/save.h"

// All ranks go on, or none does.
namespace trireme::checkpoint {

/// What made a rank fail, known to every rank.
struct Failure {
  enum class Kind { System, Usage, Data } kind = Kind::System;
  std::string text;
};

/// Runs `action` on this rank and gives its result to all: the results by rank. If it threw on any rank, every rank
/// throws the Failure of the first such rank. Errors of the exchange itself (a dead peer) pass through.
std::vector<base::Json> agree(const GatherStrings& gather, const std::function<base::Json()>& action);

/// Throws the failure as the base::Error of its kind, "TASK failed on rank 1: …".
[[noreturn]] void throw_error(const Failure& failure, const std::string& task);

}  // namespace trireme::checkpoint
