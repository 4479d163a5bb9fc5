#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trireme/cli/command_line.h"

namespace trireme::cli {

struct VerbHelp {
  Verb verb;
  std::string_view name;
  std::string_view sentence;
  std::string_view example;  ///< without the program's name
};

/// The verbs that are built, in the order of the help.
std::span<const VerbHelp> built_verbs();

/// Verbs of the design that are not built yet.
std::span<const std::string_view> later_verbs();

/// Answer to --help without a verb.
std::string overview(const std::string& program_name);

/// Answer to --version: Trireme's version and the libtorch that it was built against.
std::string version_text();

}  // namespace trireme::cli
