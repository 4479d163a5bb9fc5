#pragma once

#include <optional>
#include <string>

#include "trireme/cli/command_line.h"
#include "trireme/spec/model.h"

namespace trireme::cli {

/// Does what was typed, as far as that needs no torch, and returns the exit code:
///
/// - Help prints, check gives the verdict, launch launches.
/// - train and prove check the configuration and the data file, then start `rank_program` with the same arguments on
///   each rank. Where a launcher started this process already (see launch::rank_variables), it becomes a rank instead.
/// - eval and sample become `rank_program`.
///
/// `own_models` reads the "model" block of a program's own job; without it the block is one of the reference models'.
/// Throws base::Error; run it in guarded().
int run_verb(const CommandLine& command, const std::string& rank_program,
             const std::optional<spec::ModelReader>& own_models = {});

/// The file beside the running program that has `name`. Not checked to exist.
std::string program_beside_this(const std::string& name);

}  // namespace trireme::cli
