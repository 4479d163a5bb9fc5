#pragma once

#include <cstdint>

#include "trireme/base/violations.h"
#include "trireme/spec/config.h"

namespace trireme::spec {

/// What is known about the place and the purpose beyond the configuration; 0 = unknown, not checked.
struct PreflightInputs {
  bool needs_steps = false;       // training.steps must be there
  bool needs_model = false;       // a "model" block must be there
  int64_t host_memory_bytes = 0;  // of this host
  int ranks_on_host = 0;
};

/// Adds what cannot run: combinations that are not built yet, by name, and a world size that the batch sizes do not
/// fit. config_from_json calls it with default inputs; the trainer again with what it knows.
void preflight(const Config& config, int world_size, const PreflightInputs& inputs, base::Violations& violations);

}  // namespace trireme::spec
