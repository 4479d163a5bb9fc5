#pragma once
// The torch wheel ships gloo's code but not its headers: what ProcessGroupGloo.hpp needs to be declared.
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
