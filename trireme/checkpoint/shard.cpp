#include "trireme/checkpoint/shard.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/json.h"
#include "trireme/base/names.h"
#include "trireme/base/safetensors.h"
#include "trireme/checkpoint/checksum.h"
#include "trireme/checkpoint/files.h"

namespace trireme::checkpoint {
namespace {

using base::text_of;

// a block is hashed and then written while it is still in the cache
constexpr size_t block_bytes = size_t{1} << 20;

uint64_t bytes_of(const ShardPiece& piece) {
  return static_cast<uint64_t>(piece.elements) * base::size_of(piece.dtype);
}

/// Length and JSON, padded to 8 bytes, for the pieces in the order given.
std::string header_of(const std::vector<ShardPiece>& pieces, const std::vector<size_t>& order, const Origin& origin) {
  base::Json header;
  header["__metadata__"] = {
      {"format", "trireme checkpoint"}, {"step", std::to_string(origin.step)}, {"run_id", origin.run_id}};
  uint64_t position = 0;
  for (size_t number = 0; number < order.size(); ++number) {
    const ShardPiece& piece = pieces[order[number]];
    header[text_of(piece.tensor, "#", number)] = {{"dtype", base::name_of(piece.dtype)},
                                                  {"shape", {piece.elements}},
                                                  {"data_offsets", {position, position + bytes_of(piece)}}};
    position += bytes_of(piece);
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

/// "belongs to step 99 of run 'x'" if the file is a shard of another checkpoint.
std::string foreign_origin(const std::string& path, const Origin& origin) {
  try {
    const base::SafetensorsFile file(path);
    const auto& metadata = file.metadata();
    const auto step = metadata.find("step"), run_id = metadata.find("run_id");
    if (step == metadata.end() || run_id == metadata.end()) return "";
    if (step->second == std::to_string(origin.step) && run_id->second == origin.run_id) return "";
    return text_of("belongs to step ", base::quoted(step->second), " of run ", base::quoted(run_id->second),
                   ", not to step ", origin.step, " of run ", base::quoted(origin.run_id));
  } catch (const base::Error&) {
    return "";
  }
}

}  // namespace

std::string shard_name(int rank) {
  std::string digits = std::to_string(rank);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return "shard_" + digits + ".safetensors";
}

StoredFile write_shard(const std::string& folder, const std::string& name, const Origin& origin,
                       std::vector<ShardPiece>& pieces) {
  // wide dtypes first, so that every piece is aligned
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return base::size_of(pieces[a].dtype) > base::size_of(pieces[b].dtype); });

  const std::string header = header_of(pieces, order, origin);
  OutputFile file(folder + "/" + name);
  file.write(header);
  uint64_t position = header.size();
  for (const size_t i : order) {
    ShardPiece& piece = pieces[i];
    Checksum checksum;
    std::span<const std::byte> rest(piece.data, bytes_of(piece));
    piece.offset = position;
    position += rest.size();
    while (!rest.empty()) {
      const auto block = rest.first(std::min(rest.size(), block_bytes));
      checksum.add(block);
      file.write(block);
      rest = rest.subspan(block.size());
    }
    piece.checksum = checksum.value();
  }
  file.close();
  return {name, position, header.size(), checksum_of(std::as_bytes(std::span(header)))};
}

void check_file(const std::string& folder, const StoredFile& file, const Origin& origin) {
  const std::string path = folder + "/" + file.name;
  const base::InputFile input(path);
  std::string fault;
  if (input.size() != file.bytes) {
    fault = text_of("has ", input.size(), " bytes instead of ", file.bytes,
                    input.size() < file.bytes ? "; it was truncated" : "");
  } else {
    Checksum checksum;
    std::vector<std::byte> block(std::min<uint64_t>(file.checked_bytes, block_bytes));
    for (uint64_t at = 0; at < file.checked_bytes; at += block.size()) {
      const std::span<std::byte> part(block.data(), std::min<uint64_t>(block.size(), file.checked_bytes - at));
      input.read(at, part);
      checksum.add(part);
    }
    if (checksum.value() != file.checksum)
      fault = text_of("was changed after it was saved: the checksum of its first ", file.checked_bytes, " bytes is ",
                      checksum_text(checksum.value()), " instead of ", checksum_text(file.checksum));
  }
  if (fault.empty()) return;
  const std::string foreign = foreign_origin(path, origin);
  throw base::DataError(text_of(path, " ", foreign.empty() ? fault : foreign));
}

}  // namespace trireme::checkpoint
