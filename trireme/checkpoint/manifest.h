#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/checkpoint/tensor.h"

// The table of contents of a checkpoint, manifest.json; docs/checkpoint_format.md describes it. Knows no torch.
namespace trireme::checkpoint {

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* state_name = "state.json";
inline constexpr int64_t format_version = 1;

/// Elements [begin, end) of the row-major concatenation of `boxes` (none = the whole tensor), stored as
/// (end - begin) * size_of(dtype) bytes at `offset` from the start of `file`.
struct Piece {
  std::vector<Box> boxes;
  int64_t begin = 0, end = 0;
  std::string file;
  uint64_t offset = 0;
  uint64_t checksum = 0;  ///< of the bytes, see checksum.h
};

struct StoredTensor {
  TensorInfo info;
  std::vector<Piece> pieces;
};

/// A file beside the manifest. `checksum` covers its first `checked_bytes` bytes: a shard's header (the pieces have
/// checksums of their own), all of state.json.
struct StoredFile {
  std::string name;
  uint64_t bytes = 0, checked_bytes = 0, checksum = 0;
};

struct Manifest {
  int64_t step = 0;
  std::string run_id;
  int64_t ranks = 1;  ///< that wrote it; of no meaning for reading
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
};

/// The text of manifest.json. Its first line holds the checksum of all that follows.
std::string manifest_text(const Manifest& manifest);

/// The inverse. Checks the checksum, every type and range, that pieces lie inside the files that are listed, and that
/// they cover every tensor exactly once. DataError that names `source` otherwise.
Manifest parse_manifest(std::string_view text, const std::string& source);

/// Throws DataError unless the pieces cover every element of every tensor exactly once; names tensor and box of the
/// first gap or overlap.
void check_coverage(const Manifest& manifest, const std::string& source);

}  // namespace trireme::checkpoint
