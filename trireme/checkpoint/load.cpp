#include "trireme/checkpoint/load.h"

#include <algorithm>
#include <map>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/names.h"
#include "trireme/checkpoint/boxes.h"
#include "trireme/checkpoint/checksum.h"
#include "trireme/checkpoint/shard.h"

namespace trireme::checkpoint {
namespace {

using base::DataError;
using base::text_of;

// a block is hashed and then copied while it is still in the cache; a multiple of every element's size
constexpr int64_t block_bytes = int64_t{1} << 20;

std::string described(const std::vector<int64_t>& shape, base::DType dtype) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text_of(base::name_of(dtype), " [", text, "]");
}

/// Reads a whole piece block by block, hands each block with its elements' numbers to `use`, and checks the checksum.
template <class Use>
void stream(const base::InputFile& file, const StoredTensor& tensor, const Piece& piece, std::vector<std::byte>& block,
            const Use& use) {
  const auto size = static_cast<int64_t>(base::size_of(tensor.info.dtype));
  block.resize(block_bytes);
  Checksum checksum;
  for (int64_t begin = piece.begin; begin < piece.end; begin += block_bytes / size) {
    const int64_t end = std::min(piece.end, begin + block_bytes / size);
    const std::span<std::byte> bytes(block.data(), static_cast<size_t>((end - begin) * size));
    file.read(piece.offset + static_cast<uint64_t>((begin - piece.begin) * size), bytes);
    checksum.add(bytes);
    use(begin, end, bytes.data());
  }
  if (checksum.value() != piece.checksum)
    throw DataError(text_of(file.path(), " was changed after it was saved: the checksum of tensor ",
                            base::quoted(tensor.info.name), " at bytes ", piece.offset, " to ",
                            piece.offset + static_cast<uint64_t>((piece.end - piece.begin) * size), " is ",
                            checksum_text(checksum.value()), " instead of ", checksum_text(piece.checksum)));
}

bool touch(const std::vector<Region>& a, const std::vector<Region>& b) {
  for (const Region& x : a)
    for (const Region& y : b)
      if (intersection(x.part, y.part)) return true;
  return false;
}

base::Json read_state(const std::string& path) {
  try {
    return base::parse_json(base::read_regular_file(path), path, base::JsonComments::Refused);
  } catch (const base::ConfigError& error) {
    throw DataError(error.what());
  }
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  const std::string path = folder + "/" + manifest_name;
  manifest_ = parse_manifest(base::read_regular_file(path), path);
  for (const StoredFile& file : manifest_.files) check_file(folder, file, {manifest_.step, manifest_.run_id});
  state_ = read_state(folder + "/" + state_name);
  for (size_t i = 0; i < manifest_.tensors.size(); ++i) index_.emplace(manifest_.tensors[i].info.name, i);
}

std::vector<TensorInfo> Checkpoint::tensors() const {
  std::vector<TensorInfo> infos;
  for (const StoredTensor& tensor : manifest_.tensors) infos.push_back(tensor.info);
  return infos;
}

bool Checkpoint::has(const std::string& name) const {
  return index_.contains(name);
}

void Checkpoint::check(const LocalTensor& into) const {
  stored(into);
}

const StoredTensor& Checkpoint::stored(const LocalTensor& into) const {
  const std::string subject = "tensor " + base::quoted(into.name);
  const auto found = index_.find(into.name);
  if (found == index_.end()) {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : manifest_.tensors) names.push_back(tensor.info.name);
    throw DataError(text_of(folder_, " holds no ", subject, base::did_you_mean(into.name, names)));
  }
  const StoredTensor& tensor = manifest_.tensors[found->second];
  if (tensor.info.shape != into.global_shape || tensor.info.dtype != into.dtype)
    throw DataError(text_of(subject, " is stored as ", described(tensor.info.shape, tensor.info.dtype), " in ", folder_,
                            ", not as ", described(into.global_shape, into.dtype)));
  if (const auto fault = boxes_fault(into.global_shape, into.boxes, into.begin, into.end))
    throw base::UsageError(subject + " " + *fault);
  TRIREME_CHECK(into.data != nullptr || into.begin == into.end, subject, " has no memory");
  return tensor;
}

void Checkpoint::read(const LocalTensor& into) const {
  const StoredTensor& tensor = stored(into);
  const size_t size = base::size_of(into.dtype);
  const std::vector<Region> targets = regions_of(into.global_shape, into.boxes, into.begin, into.end);
  std::map<std::string, base::InputFile> files;
  std::vector<std::byte> block;
  for (const Piece& piece : tensor.pieces) {
    if (!touch(regions_of(tensor.info.shape, piece.boxes, piece.begin, piece.end), targets)) continue;
    auto file = files.find(piece.file);
    if (file == files.end()) file = files.emplace(piece.file, base::InputFile(folder_ + "/" + piece.file)).first;
    stream(file->second, tensor, piece, block, [&](int64_t begin, int64_t end, const std::byte* bytes) {
      for (const Region& source : regions_of(tensor.info.shape, piece.boxes, begin, end))
        for (const Region& target : targets) copy_common(source, bytes, target, into.data, size);
    });
  }
}

void Checkpoint::verify() const {
  std::map<std::string, base::InputFile> files;
  for (const StoredFile& file : manifest_.files) files.emplace(file.name, base::InputFile(folder_ + "/" + file.name));
  std::vector<std::byte> block;
  for (const StoredTensor& tensor : manifest_.tensors)
    for (const Piece& piece : tensor.pieces)
      stream(files.at(piece.file), tensor, piece, block, [](int64_t, int64_t, const std::byte*) {});
}

}  // namespace trireme::checkpoint
