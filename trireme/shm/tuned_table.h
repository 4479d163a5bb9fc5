#pragma once

#include <string>

#include "trireme/shm/communicator.h"

namespace trireme::shm {

struct TunedTable {
  AlgorithmTable table;
  std::string origin;  // "given by FILE", "kept in FILE", "measured now …"
};

/// Where the table for `ranks` ranks on `cores` cores of this processor is kept: "algorithms-PROCESSOR-RANKS.json", or
/// "…-RANKS-on-CORES-cores.json" where those are fewer, in the folder "trireme" of $XDG_CACHE_HOME or of ~/.cache.
/// Empty where the user has neither.
std::string table_file(int ranks, int cores);

/// Collective: rank 0 takes the table from the file `given`, else from table_file(), else all measure it and rank 0
/// keeps it there. What cannot be read there is measured again, what cannot be written is not kept. `communicator` uses
/// the table from then on; all ranks return the same. Throws on every rank: ConfigError about `given`, which
/// counts on rank 0; what collectives throw.
TunedTable tuned_table(Communicator& communicator, const std::string& given);

}  // namespace trireme::shm
