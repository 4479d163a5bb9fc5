#pragma once
// The torch wheel ships gloo's code but not its headers: what ProcessGroupGloo.hpp needs to be declared.
namespace gloo::transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace gloo::transport
