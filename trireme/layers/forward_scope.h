#pragma once

#include <cstdint>

namespace trireme::layers {

/// What a forward pass may depend on beside its inputs: random layers (dropout) are keyed by (seed, step, layer, global
/// row, element), so that their masks do not depend on how the ranks are laid out, and a recomputation draws the same.
struct ForwardState {
  uint64_t seed = 0;
  int64_t step = 0;       // optimizer step, from 0
  int64_t first_row = 0;  // row of the global batch that is row 0 of this micro-batch
  bool training = false;
};

/// The state of the innermost ForwardScope of this thread; the default one outside any.
const ForwardState& forward_state();

/// Sets forward_state() of this thread for its lifetime.
class ForwardScope {
 public:
  explicit ForwardScope(const ForwardState& state);
  ~ForwardScope();
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;

 private:
  ForwardState previous_;
};

}  // namespace trireme::layers
