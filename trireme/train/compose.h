#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/data_parallel/reducer.h"
#include "trireme/layers/flat_store.h"
#include "trireme/layers/job.h"
#include "trireme/layers/model.h"
#include "trireme/mesh/mesh.h"
#include "trireme/optim/flat_optimizer.h"
#include "trireme/spec/config.h"

// The one place where the mechanisms meet: a job and a configuration become the objects that a step works on.
namespace trireme::train {

/// One flat range that is updated as a whole: a trainable space of the FlatLayout.
struct UpdatedRange {
  int space = 0;
  std::unique_ptr<optim::FlatOptimizer> optimizer;
};

struct Composition {
  mesh::Mesh mesh;
  comm::Group data_ranks;  // the ranks that hold the same weights and average their gradients
  std::unique_ptr<layers::Model> model;
  std::unique_ptr<layers::FlatParameters> parameters;
  std::shared_ptr<layers::FlatGradients> gradients;
  std::unique_ptr<data_parallel::Reducer> reducer;
  std::vector<UpdatedRange> ranges;
  at::Tensor probe;                // a scalar parameter with known slope, see ledger.h; undefined without probing
  std::vector<std::string> notes;  // what was resolved, for the start-up table
};

struct ComposeOptions {
  bool probe = false;  // measure the gradient's scale in every step
};

/// Throws base::ConfigError if the ranks build different models or two parameters overlap.
Composition compose(const layers::Job& job, const spec::Config& config, const comm::World& world,
                    const ComposeOptions& options = {});

}  // namespace trireme::train
