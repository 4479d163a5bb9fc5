#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/file.h"

// The safetensors format (Hugging Face): 8 bytes of little-endian header length, a JSON header, then the tensors'
// bytes, each once and without gaps. Nothing in a header is believed before it is checked against the file's size.
namespace trireme::base {

struct TensorEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  /// Byte range, counted from SafetensorsHeader::data_offset.
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  /// In the order of their bytes.
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;
  /// Where the tensors' bytes start in the file.
  uint64_t data_offset = 0;
};

/// Parses and checks the header of a whole file in memory; reads nothing behind the header. DataError names the source,
/// the tensor and the numbers that disagree: dtype × shape against byte range, ranges against each other and the file's
/// size.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& source);

/// The elements of a shape, 1 for a scalar. Nothing if a dimension is negative or the product exceeds int64_t.
std::optional<int64_t> element_count(std::span<const int64_t> shape);

/// A safetensors file, mapped on demand.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.file().path(); }
  const std::vector<TensorEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// nullptr if there is no such tensor.
  const TensorEntry* find(const std::string& name) const;
  /// DataError with the nearest name if there is no such tensor.
  const TensorEntry& at(const std::string& name) const;

  /// A tensor's bytes in the mapping, not necessarily aligned to its dtype; see MappedFile for files that shrink.
  std::span<const std::byte> bytes(const TensorEntry& entry) const;
  /// Copies out.size() bytes of a tensor from byte `begin` of it, without the mapping; DataError if the file has
  /// shrunk.
  void read(const TensorEntry& entry, uint64_t begin, std::span<std::byte> out) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> index_;
};

struct TensorSource {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  /// Row-major elements, as many bytes as dtype and shape need.
  std::span<const std::byte> bytes;
};

/// Writes a file atomically (AtomicFile), tensors of wide dtypes first so that each is aligned, otherwise in the given
/// order. SystemError if a write fails; InternalError for a duplicate name or bytes that do not fit the shape.
void write_safetensors(const std::string& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace trireme::base
