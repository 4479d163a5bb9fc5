#pragma once

#include "trireme/cli/bench_request.h"
#include "trireme/launch/environment.h"

namespace trireme::comm_bench {

/// One rank of `trireme bench comm`; rank 0 prints the table, or with `json` one document. Throws base::Error.
void run_bench_comm(const cli::BenchRequest& request, bool json, const launch::RankVariables& place);

}  // namespace trireme::comm_bench
