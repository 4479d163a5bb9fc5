// `trireme-rank`: one rank of `trireme train`, and the verbs that need torch.
#include "trireme/program/run.h"

int main(int argc, char** argv) {
  return trireme::program::run_reference_models(argc, argv);
}
