#pragma once

#include <functional>

#include "trireme/base/reader.h"
#include "trireme/layers/job.h"
#include "trireme/spec/config.h"

namespace trireme::program {

using JobFactory = std::function<layers::Job(const spec::Config&)>;

/// The main of a program that trains a job of its own: its command line is trireme's (train, check, launch, prove,
/// eval), and it is launcher and rank in one: `./my_program train config.json --ranks 2` starts its ranks by executing
/// itself. `job` is called on every rank. `read_model`, if given, reads the "model" block: keys that it does not ask
/// for are errors, before a rank starts. Returns the exit code.
int run(int argc, char** argv, const JobFactory& job, const std::function<void(base::Reader&)>& read_model = {});

/// The main of trireme-rank: the reference models.
int run_reference_models(int argc, char** argv);

}  // namespace trireme::program
