#include "trireme/layers/forward_scope.h"

namespace trireme::layers {
namespace {
thread_local ForwardState current;
}

const ForwardState& forward_state() {
  return current;
}

ForwardScope::ForwardScope(const ForwardState& state) : previous_(current) {
  current = state;
}
ForwardScope::~ForwardScope() {
  current = previous_;
}

}  // namespace trireme::layers
