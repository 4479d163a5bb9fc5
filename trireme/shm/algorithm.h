#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/shm/operation.h"

// Which way an operation goes. No way is best everywhere: it depends on the processor and on the size, so a table that
// is measured decides (measure_table.h). Results are the same bits by every way.
namespace trireme::shm {

enum class Algorithm : uint8_t {
  Inline,  // the input travels in the control block itself: no rank waits for its readers
  Pull,    // ranks copy what they need out of the peers' memory, piece by piece as it becomes ready
  Push     // all_reduce only: each rank stores the sums of its slice into all ranks' memory
};

struct Method {
  /// The method serves sizes up to this one: of the full buffer, that is of what lies on a rank after all_gather or
  /// before reduce_scatter.
  uint64_t up_to_bytes = UINT64_MAX;
  Algorithm algorithm = Algorithm::Pull;
  /// Copies go past the caches.
  bool streaming = false;
  /// Pull: a slice is published in pieces of so many bytes.
  uint64_t piece_bytes = UINT64_MAX;

  bool operator==(const Method&) const = default;
};

/// Must be equal on all ranks of a group.
struct AlgorithmTable {
  /// For each operation in ascending order of up_to_bytes; the last serves all sizes.
  std::map<Operation, std::vector<Method>> methods;
  /// Inputs outside the arena up to so many bytes are copied into it; larger ones are read where they lie.
  uint64_t copied_up_to_bytes = 0;

  const Method& choose(Operation operation, uint64_t bytes) const;

  bool operator==(const AlgorithmTable&) const = default;
};

/// A guess that serves every processor.
AlgorithmTable default_table();

/// {"all_reduce": [{"up_to_bytes": 4096, "algorithm": "inline"}, …, {"algorithm": "pull", "streaming": true,
/// "piece_bytes": 524288}], …, "copied_up_to_bytes": 65536}
base::Json to_json(const AlgorithmTable& table);

/// Throws ConfigError with `source` for everything that to_json does not write.
AlgorithmTable table_from_json(const base::Json& json, const std::string& source);

std::string_view name_of(Algorithm algorithm);

}  // namespace trireme::shm
