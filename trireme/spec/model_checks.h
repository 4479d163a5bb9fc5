#pragma once

#include <string>

#include "trireme/base/violations.h"
#include "trireme/spec/model.h"

namespace trireme::spec {

/// A gpt2 block, checked; keys that it does not have come from `defaults`. `path` is "model".
Gpt2Spec read_gpt2(const base::Json& block, const std::string& path, Gpt2Spec defaults, base::Violations& violations);

}  // namespace trireme::spec
