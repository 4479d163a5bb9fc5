#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/comm/world.h"
#include "trireme/layers/job.h"
#include "trireme/spec/config.h"

namespace trireme::train {

/// One comparison of the plain run with the parallel one.
struct ProofRow {
  std::string what;      // "loss", "gradient of h.0.ln_1.weight", "h.0.ln_1.weight after the update"
  double error = 0;      // relative, see Proof
  double tolerance = 0;  // what rounding can explain
  bool equal() const { return error <= tolerance; }
};

/// One step run by one process, and by the ranks under the configured layout, on the same global batch.
///
/// Errors of gradients are norms of differences relative to the gradient's norm (at least its share of the whole
/// gradient). The tolerance follows from fp32 and the number of items that are summed; as far as rounding allows (up to
/// 6e4 items) it stays below a quarter of 1 / items and 1 / world, so that one item or one rank too much or too little
/// is found; the count itself is compared exactly. The step runs at the schedule's peak rate. A weight after the update
/// may differ by as much as its gradients' difference moves the optimizer, element by element, and by rounding. Models
/// that draw from torch's generator in forward (torch::nn::Dropout) cannot be proven: each rank has a stream of its
/// own.
struct Proof {
  std::vector<ProofRow> rows;
  int ranks = 1;
  int64_t items = 0;
  bool equal() const;
  std::string text() const;  // the verdict, the largest errors, what differs
  base::Json json() const;
};

/// Called by every rank; the result is whole on every rank.
Proof prove(const layers::Job& job, const spec::Config& config, const comm::World& world);

}  // namespace trireme::train
