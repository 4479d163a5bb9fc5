#include "trireme/cli/help.h"

#include <array>

#include "trireme/base/error.h"

namespace trireme::cli {

std::span<const VerbHelp> built_verbs() {
  static constexpr std::array<VerbHelp, 8> verbs = {{
      {Verb::Train, "train", "train the model of a configuration; several files merge left to right",
       "train gpt.json --data text.txt --ranks 2 --steps 500 --out runs/first"},
      {Verb::Launch, "launch", "start any program on several ranks with torchrun's variables",
       "launch -n 4 -- ./my_program --its-own --flags"},
      {Verb::Check, "check", "say whether a configuration can run, and every value that it leads to",
       "check gpt.json --ranks 4 --set train_batch_size=64"},
      {Verb::Prove, "prove", "compare one step of the parallel run with the plain one, tensor by tensor",
       "prove gpt.json --ranks 2"},
      {Verb::Eval, "eval", "loss of a run, checkpoint or export on a file",
       "eval runs/first/export --data held_out.txt --json"},
      {Verb::Sample, "sample", "continue a text with a run, checkpoint or export",
       "sample runs/first/export --prompt 'In the beginning' --length 200"},
      {Verb::Bench, "bench", "measure the collectives of this machine against MPI, gloo and the memory's own speed",
       "bench comm --ops all_reduce --sizes 1KiB,1MiB --ranks 2 --against gloo"},
      {Verb::Status, "status", "show what every rank of a running run is doing, and for how long",
       "status runs/first --watch"},
  }};
  return verbs;
}

std::span<const std::string_view> later_verbs() {
  static constexpr std::array<std::string_view, 5> verbs = {"plan", "tune", "convert", "doctor", "report"};
  return verbs;
}

std::string overview(const std::string& program_name) {
  std::string text = "Trains one model on many processes.\n\nUsage: " + program_name + " VERB ...\n\n";
  for (const VerbHelp& verb : built_verbs()) {
    text += base::text_of("  ", verb.name, std::string(8 - verb.name.size(), ' '), verb.sentence, "\n");
  }
  text += "\nNot built yet:";
  for (std::string_view verb : later_verbs()) text += base::text_of(" ", verb);
  text += base::text_of("\n\nExample: ", program_name, " ", built_verbs().front().example, "\n", program_name,
                        " VERB --help shows the flags of a verb; --version the version.\n");
  return text;
}

std::string version_text() {
#ifdef TRIREME_LIBTORCH_VERSION
  return "trireme " TRIREME_VERSION ", built against libtorch " TRIREME_LIBTORCH_VERSION "\n";
#else
  return "trireme " TRIREME_VERSION ", without torch\n";
#endif
}

}  // namespace trireme::cli
