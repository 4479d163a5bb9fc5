#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/checkpoint/manifest.h"
#include "trireme/checkpoint/tensor.h"

namespace trireme::checkpoint {

/// A committed checkpoint, readable on any layout and any number of ranks; no communication. Every damage is a
/// DataError that names the file and the reason: missing, truncated, of another step or run, changed bytes.
class Checkpoint {
 public:
  /// Reads manifest and state, proves that the pieces cover every tensor exactly once, and checks size, header and
  /// step of every file. Costs one small read a file.
  explicit Checkpoint(const std::string& folder);

  const std::string& folder() const { return folder_; }
  int64_t step() const { return manifest_.step; }
  const std::string& run_id() const { return manifest_.run_id; }
  const base::Json& state() const { return state_; }

  /// In the order in which they were saved.
  std::vector<TensorInfo> tensors() const;

  /// Whether a tensor of this name is stored.
  bool has(const std::string& name) const;

  /// Fills into.data with into's boxes and range, from whatever pieces hold them. Checks the checksum of every piece
  /// touched; after an error the contents of into.data are undefined. A tensor that is not stored, or stored with
  /// another shape or dtype, is a DataError with both.
  void read(const LocalTensor& into) const;

  /// Throws what read() would, short of a wrong checksum, and reads nothing.
  void check(const LocalTensor& into) const;

  /// Reads every byte and checks every checksum.
  void verify() const;

 private:
  const StoredTensor& stored(const LocalTensor& into) const;

  std::string folder_;
  Manifest manifest_;
  base::Json state_;
  std::unordered_map<std::string, size_t> index_;  // name -> place in manifest_.tensors
};

}  // namespace trireme::checkpoint
