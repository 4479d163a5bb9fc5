#pragma once

#include <string>

#include "trireme/spec/config.h"

// What several tests of this module say.
namespace trireme::spec {

inline std::string notes(const Config& config) {
  std::string text;
  for (const std::string& note : config.notes) text += note + "\n";
  return text;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace trireme::spec
