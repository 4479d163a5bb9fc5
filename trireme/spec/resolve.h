#pragma once

#include "trireme/base/violations.h"
#include "trireme/spec/keys.h"
#include "trireme/spec/parse.h"

// From the values of the keys to a Config: what one key derives from others, and what they must be together.
namespace trireme::spec {

void resolve_optimizer(Draft& draft, const Given& given, base::Violations& violations);

/// Needs the optimizer. `block`: what the file says under "scheduler". Puts Config::scheduler in.
void resolve_scheduler(Draft& draft, const Given& given, const base::Json& block, base::Violations& violations);

/// The number as it would be written in JSON: shortest text that reads back.
std::string written(double value);

}  // namespace trireme::spec
