#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/checkpoint/manifest.h"
#include "trireme/checkpoint/tensor.h"

// Who writes what. A pure function of what all ranks offer, so that every rank computes the same plan.
namespace trireme::checkpoint {

/// Elements [begin, end) of offer number `offer` of a rank, in the offer's own concatenation of boxes.
struct PlannedPiece {
  size_t tensor = 0;  ///< index into Plan::tensors
  size_t offer = 0;
  int64_t begin = 0, end = 0;
};

struct Plan {
  std::vector<TensorInfo> tensors;               ///< in the order of their first offer
  std::vector<std::vector<PlannedPiece>> ranks;  ///< what each rank writes
};

/// No piece is longer, so that a reader that needs a little need not check much.
inline constexpr int64_t most_piece_bytes = int64_t{64} << 20;

/// offers[rank]: what a rank holds; data pointers are ignored. Offers that are equal on several ranks are replicas:
/// laid end to end, they are cut into as many shares of equal bytes as ranks offer them. UsageError that names tensor
/// and rank if an offer is malformed, two ranks disagree about a tensor, one rank offers the same twice, or the offers
/// do not cover each element exactly once.
Plan plan_save(const std::vector<std::vector<LocalTensor>>& offers);

/// Offers as text between ranks.
base::Json offers_to_json(const std::vector<LocalTensor>& offers);
std::vector<LocalTensor> offers_from_json(const base::Json& json);

}  // namespace trireme::checkpoint
