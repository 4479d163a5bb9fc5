#include "trireme/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/names.h"
#include "trireme/checkpoint/boxes.h"
#include "trireme/checkpoint/checksum.h"

namespace trireme::checkpoint {
namespace {

using base::DataError;
using base::Json;
using base::text_of;

constexpr std::string_view first_line_start = "{\"checksum\": \"";
constexpr std::string_view first_line_end = "\",\n";
constexpr size_t checksum_digits = 16;

/// Reads values out of the parsed text; every error names the source.
struct Fields {
  const std::string& source;

  [[noreturn]] void fail(const std::string& sentence) const { throw DataError(source + ": " + sentence); }

  const Json& at(const Json& object, const char* key) const {
    if (!object.is_object()) fail(text_of("an object with '", key, "' is expected, not ", base::shown(object)));
    const auto found = object.find(key);
    if (found == object.end()) fail(text_of("'", key, "' is missing"));
    return *found;
  }
  const Json& array(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    if (!value.is_array()) fail(text_of("'", key, "' must be a list, not ", base::shown(value)));
    return value;
  }
  std::string string(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    if (!value.is_string()) fail(text_of("'", key, "' must be a string, not ", base::shown(value)));
    return value.get<std::string>();
  }
  int64_t natural(const Json& value, const char* key) const {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                          : value.is_number_integer() && value.get<int64_t>() >= 0;
    if (!fits) fail(text_of("'", key, "' must be an integer from 0 on, not ", base::shown(value)));
    return value.get<int64_t>();
  }
  int64_t natural_at(const Json& object, const char* key) const { return natural(at(object, key), key); }
  std::vector<int64_t> naturals(const Json& value, const char* key) const {
    if (!value.is_array()) fail(text_of("'", key, "' must be a list of integers, not ", base::shown(value)));
    std::vector<int64_t> numbers;
    for (const Json& element : value) numbers.push_back(natural(element, key));
    return numbers;
  }
  uint64_t checksum(const Json& object) const {
    const std::string digits = string(object, "checksum");
    uint64_t number = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number, 16);
    if (digits.size() != checksum_digits || error != std::errc() || stop != end)
      fail(text_of("'checksum' must be 16 hexadecimal digits, not ", base::quoted(digits)));
    return number;
  }
};

Json json_of(const Piece& piece) {
  Json json = {{"file", piece.file},
               {"offset", piece.offset},
               {"begin", piece.begin},
               {"end", piece.end},
               {"checksum", checksum_text(piece.checksum)}};
  for (const Box& box : piece.boxes) json["boxes"].push_back({box.begin, box.end});
  return json;
}

Json json_of(const StoredTensor& tensor) {
  Json json = {{"name", tensor.info.name},
               {"dtype", base::name_of(tensor.info.dtype)},
               {"shape", tensor.info.shape},
               {"pieces", Json::array()}};
  for (const Piece& piece : tensor.pieces) json["pieces"].push_back(json_of(piece));
  return json;
}

StoredFile file_from(const Json& json, const Fields& fields) {
  StoredFile file;
  file.name = fields.string(json, "name");
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name.find('\0') != std::string::npos ||
      file.name == "." || file.name == "..")
    fields.fail(text_of("the file name ", base::quoted(file.name), " is not the name of a file in this folder"));
  file.bytes = fields.natural_at(json, "bytes");
  file.checked_bytes = fields.natural_at(json, "checked_bytes");
  file.checksum = fields.checksum(json);
  if (file.checked_bytes > file.bytes)
    fields.fail(text_of("of the ", file.bytes, " bytes of ", file.name, ", ", file.checked_bytes, " are checked"));
  return file;
}

Piece piece_from(const Json& json, const Fields& fields) {
  Piece piece;
  piece.file = fields.string(json, "file");
  piece.offset = fields.natural_at(json, "offset");
  piece.begin = fields.natural_at(json, "begin");
  piece.end = fields.natural_at(json, "end");
  piece.checksum = fields.checksum(json);
  if (json.contains("boxes"))
    for (const Json& box : fields.array(json, "boxes")) {
      if (!box.is_array() || box.size() != 2)
        fields.fail(text_of("a box must be [begin, end], not ", base::shown(box)));
      piece.boxes.push_back({fields.naturals(box[0], "boxes"), fields.naturals(box[1], "boxes")});
    }
  return piece;
}

/// Judges a tensor by itself: shape, and where its pieces lie.
void check_tensor(const StoredTensor& tensor, const std::map<std::string, uint64_t>& sizes, const Fields& fields) {
  const std::string subject = "tensor " + base::quoted(tensor.info.name) + " ";
  if (const auto fault = boxes_fault(tensor.info.shape, {}, 0, 0)) fields.fail(subject + *fault);
  for (const Piece& piece : tensor.pieces) {
    if (const auto fault = boxes_fault(tensor.info.shape, piece.boxes, piece.begin, piece.end))
      fields.fail(subject + *fault);
    const auto file = sizes.find(piece.file);
    if (file == sizes.end())
      fields.fail(text_of(subject, "lies in the file ", base::quoted(piece.file), ", which is not listed"));
    const uint64_t room = file->second >= piece.offset ? file->second - piece.offset : 0;
    const uint64_t elements = static_cast<uint64_t>(piece.end - piece.begin);
    if (file->second < piece.offset || elements > room / base::size_of(tensor.info.dtype))
      fields.fail(text_of(subject, "has ", elements, " elements at byte ", piece.offset, " of ", piece.file,
                          ", which has ", file->second, " bytes"));
  }
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  // one line a file and a tensor, so that people can read it
  std::string body =
      text_of("\"format\": \"trireme checkpoint\", \"version\": ", format_version, ", \"step\": ", manifest.step,
              ", \"run_id\": ", Json(manifest.run_id).dump(), ", \"ranks\": ", manifest.ranks, ",\n\"files\": [");
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const StoredFile& file = manifest.files[i];
    const Json json = {{"name", file.name},
                       {"bytes", file.bytes},
                       {"checked_bytes", file.checked_bytes},
                       {"checksum", checksum_text(file.checksum)}};
    body += (i ? ",\n  " : "\n  ") + json.dump();
  }
  body += "\n],\n\"tensors\": [";
  for (size_t i = 0; i < manifest.tensors.size(); ++i)
    body += (i ? ",\n  " : "\n  ") + json_of(manifest.tensors[i]).dump();
  body += "\n]}\n";
  const uint64_t checksum = checksum_of(std::as_bytes(std::span(body)));
  return text_of(first_line_start, checksum_text(checksum), first_line_end, body);
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  const Fields fields{source};
  const size_t head = first_line_start.size() + checksum_digits + first_line_end.size();
  if (text.empty()) fields.fail("the manifest is empty");
  if (text.size() < head || !text.starts_with(first_line_start) ||
      text.substr(first_line_start.size() + checksum_digits, first_line_end.size()) != first_line_end)
    fields.fail("this is not the manifest of a checkpoint");
  const std::string computed = checksum_text(checksum_of(std::as_bytes(std::span(text.substr(head)))));
  if (text.substr(first_line_start.size(), checksum_digits) != computed)
    fields.fail("the manifest is truncated or was changed after it was written, its checksum is " + computed);

  Json json;
  try {
    json = base::parse_json(text, source, base::JsonComments::Refused);
  } catch (const base::ConfigError& error) {
    throw DataError(error.what());
  }
  if (fields.string(json, "format") != "trireme checkpoint") fields.fail("this is not the manifest of a checkpoint");
  const int64_t version = fields.natural_at(json, "version");
  if (version != format_version)
    fields.fail(text_of("the checkpoint's format version is ", version, ", this program reads ", format_version));

  Manifest manifest;
  manifest.step = fields.natural_at(json, "step");
  manifest.run_id = fields.string(json, "run_id");
  manifest.ranks = fields.natural_at(json, "ranks");
  std::map<std::string, uint64_t> sizes;
  for (const Json& entry : fields.array(json, "files")) {
    manifest.files.push_back(file_from(entry, fields));
    if (!sizes.emplace(manifest.files.back().name, manifest.files.back().bytes).second)
      fields.fail(text_of("the file ", base::quoted(manifest.files.back().name), " is listed twice"));
  }
  std::set<std::string> names;
  for (const Json& entry : fields.array(json, "tensors")) {
    StoredTensor tensor;
    tensor.info.name = fields.string(entry, "name");
    tensor.info.shape = fields.naturals(fields.at(entry, "shape"), "shape");
    const std::string dtype = fields.string(entry, "dtype");
    const auto known = base::dtype_named(dtype);
    if (!known)
      fields.fail(text_of("tensor ", base::quoted(tensor.info.name), " has the unknown dtype ", base::quoted(dtype)));
    tensor.info.dtype = *known;
    for (const Json& piece : fields.array(entry, "pieces")) tensor.pieces.push_back(piece_from(piece, fields));
    if (!names.insert(tensor.info.name).second)
      fields.fail(text_of("tensor ", base::quoted(tensor.info.name), " is listed twice"));
    check_tensor(tensor, sizes, fields);
    manifest.tensors.push_back(std::move(tensor));
  }
  check_coverage(manifest, source);
  return manifest;
}

void check_coverage(const Manifest& manifest, const std::string& source) {
  for (const StoredTensor& tensor : manifest.tensors) {
    std::vector<Box> parts;
    std::vector<size_t> owners;
    for (size_t i = 0; i < tensor.pieces.size(); ++i) {
      const Piece& piece = tensor.pieces[i];
      for (Region& region : regions_of(tensor.info.shape, piece.boxes, piece.begin, piece.end)) {
        parts.push_back(std::move(region.part));
        owners.push_back(i);
      }
    }
    const auto fault = coverage_fault(tensor.info.shape, parts);
    if (!fault) continue;
    const std::string subject =
        text_of(source, ": elements ", text_of(fault->where), " of tensor ", base::quoted(tensor.info.name));
    if (fault->covered_by.empty()) throw DataError(subject + " are in no file");
    std::string files;
    for (const size_t part : fault->covered_by) files += (files.empty() ? "" : ", ") + tensor.pieces[owners[part]].file;
    throw DataError(text_of(subject, " are stored ", fault->covered_by.size(), " times, in ", files));
  }
}

}  // namespace trireme::checkpoint
