#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/checkpoint/manifest.h"
#include "trireme/checkpoint/tensor.h"

// A shard: the pieces that one rank wrote, a safetensors file of 1-D tensors "NAME#NUMBER" whose metadata holds step
// and run id.
namespace trireme::checkpoint {

/// Whose file it is.
struct Origin {
  int64_t step = 0;
  std::string run_id;
};

/// "shard_00003.safetensors"
std::string shard_name(int rank);

struct ShardPiece {
  std::string tensor;
  base::DType dtype = base::DType::F32;
  int64_t elements = 0;
  const std::byte* data = nullptr;
  // filled in by write_shard
  uint64_t offset = 0;  ///< from the start of the file
  uint64_t checksum = 0;
};

/// Writes folder/name straight from the pieces' memory and syncs it; nothing is left if it fails (SystemError).
StoredFile write_shard(const std::string& folder, const std::string& name, const Origin& origin,
                       std::vector<ShardPiece>& pieces);

/// DataError with the reason unless folder/file.name is there, has the right size and the right first bytes. For a
/// shard of another checkpoint the reason is its step or run.
void check_file(const std::string& folder, const StoredFile& file, const Origin& origin);

}  // namespace trireme::checkpoint
