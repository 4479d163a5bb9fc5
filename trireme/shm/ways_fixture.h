#pragma once

#include <string>
#include <vector>

#include "trireme/shm/algorithm.h"
#include "trireme/shm/control.h"

// For tests: every way that a collective can go, each for all sizes that it serves.
namespace trireme::shm {

struct Way {
  std::string name;
  AlgorithmTable table;
};

/// A table that knows one method, after inline up to `inline_up_to` bytes.
inline AlgorithmTable only(Method method, uint64_t inline_up_to, uint64_t copied_up_to) {
  AlgorithmTable table = default_table();
  for (auto& [operation, methods] : table.methods) {
    methods.clear();
    if (inline_up_to > 0) methods.push_back({.up_to_bytes = inline_up_to, .algorithm = Algorithm::Inline});
    methods.push_back(method);
    if (method.algorithm == Algorithm::Push && operation != Operation::AllReduce) methods.back() = Method{};
  }
  table.copied_up_to_bytes = copied_up_to;
  return table;
}

inline std::vector<Way> ways() {
  const Method pull;
  const Method pieces{.piece_bytes = 4096};
  const Method streaming{.streaming = true, .piece_bytes = 16384};
  const Method push{.algorithm = Algorithm::Push};
  return {{"Default", default_table()},
          {"Inline", only(pull, kInlineBytes, 0)},
          {"Pull", only(pull, 0, UINT64_MAX)},
          {"PullPrivate", only(pull, 0, 0)},
          {"PullPieces", only(pieces, 0, 4096)},
          {"PullPiecesPrivate", only(pieces, 0, 0)},
          {"PullStreaming", only(streaming, 0, UINT64_MAX)},
          {"PushCopied", only(push, 0, UINT64_MAX)},
          {"PushPrivate", only(push, 0, 0)}};
}

}  // namespace trireme::shm
