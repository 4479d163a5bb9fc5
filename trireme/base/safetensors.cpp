#include "trireme/base/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/names.h"

namespace trireme::base {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian and are not swapped");

constexpr uint64_t kLengthBytes = 8;
// the limit of Hugging Face's reader
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string file_name(const std::string& source) {
  return "safetensors file " + base::quoted(source, 4096);
}

/// What is wrong with one tensor.
[[noreturn]] void refuse(const std::string& source, const std::string& tensor, const std::string& sentence) {
  throw DataError(text_of(file_name(source), ", tensor ", base::quoted(tensor, 200), ": ", sentence));
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size() && i < 16; ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + (shape.size() > 16 ? ", …]" : "]");
}

std::string dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(DType::Bool); ++i) names.emplace_back(name_of(static_cast<DType>(i)));
  return joined(names);
}

/// Bytes of a tensor; nothing if they exceed 64 bits.
std::optional<uint64_t> byte_count(DType dtype, std::span<const int64_t> shape) {
  const auto elements = element_count(shape);
  uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(static_cast<uint64_t>(*elements), uint64_t{size_of(dtype)}, &bytes))
    return std::nullopt;
  return bytes;
}

const Json& member(const Json& object, const char* key, const std::string& source, const std::string& tensor) {
  const auto found = object.find(key);
  if (found == object.end()) refuse(source, tensor, text_of("its header entry has no \"", key, "\""));
  return *found;
}

std::vector<int64_t> read_shape(const Json& value, const std::string& source, const std::string& tensor) {
  if (!value.is_array()) refuse(source, tensor, "shape must be a list, not " + shown(value));
  std::vector<int64_t> shape;
  for (const Json& size : value) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      refuse(source, tensor, text_of("shape ", shown(value), " holds ", shown(size), ", which is no size"));
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

void read_offsets(const Json& value, const std::string& source, TensorEntry& entry) {
  const auto is_offset = [](const Json& offset) { return offset.is_number_unsigned(); };
  if (!value.is_array() || value.size() != 2 || !std::ranges::all_of(value, is_offset))
    refuse(source, entry.name, "data_offsets must be two integers from 0, begin and end, not " + shown(value));
  entry.begin = value[0].get<uint64_t>();
  entry.end = value[1].get<uint64_t>();
  if (entry.begin > entry.end)
    refuse(source, entry.name, text_of("data_offsets begin at ", entry.begin, " behind their end at ", entry.end));
}

/// Everything that a tensor's entry can say wrong by itself. `data_bytes`: what the file holds behind the header.
TensorEntry read_entry(const std::string& name, const Json& value, uint64_t data_bytes, const std::string& source) {
  if (!value.is_object()) refuse(source, name, "its header entry must be an object, not " + shown(value));
  TensorEntry entry;
  entry.name = name;
  read_offsets(member(value, "data_offsets", source, name), source, entry);
  if (entry.end > data_bytes)
    refuse(source, name, text_of("data_offsets end at ", entry.end, ", the file's data at ", data_bytes));

  const Json& dtype = member(value, "dtype", source, name);
  const auto known = dtype.is_string() ? dtype_named(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!known)
    refuse(source, name, text_of("dtype ", shown(dtype), " is not supported; must be one of ", dtype_names()));
  entry.dtype = *known;

  entry.shape = read_shape(member(value, "shape", source, name), source, name);
  const auto bytes = byte_count(entry.dtype, entry.shape);
  if (bytes != entry.bytes())
    refuse(source, name,
           text_of(name_of(entry.dtype), " of shape ", shape_text(entry.shape), " needs ",
                   bytes ? std::to_string(*bytes) : "more than 2^63", " bytes, data_offsets [", entry.begin, ", ",
                   entry.end, "] hold ", entry.bytes()));
  return entry;
}

/// Each byte belongs to exactly one tensor. `entries` are sorted.
void check_cover(const std::vector<TensorEntry>& entries, uint64_t data_bytes, const std::string& source) {
  uint64_t covered = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != covered)
      refuse(source, entry.name,
             text_of("data_offsets begin at ", entry.begin, ", but the tensors before end at ", covered,
                     entry.begin < covered ? ": they overlap" : ": there is a gap"));
    covered = entry.end;
  }
  if (covered != data_bytes)
    throw DataError(
        text_of(file_name(source), ": the tensors end at byte ", covered, " of the data, the file has ", data_bytes));
}

Json parse_header_text(std::span<const std::byte> bytes, const std::string& source) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    return parse_json(text, "header", JsonComments::Refused);
  } catch (const Error& error) {
    throw DataError(text_of(file_name(source), ": ", error.what()));
  }
}

std::string header_text(std::span<const TensorSource> tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  auto& members = static_cast<Json::object_t::Container&>(header.get_ref<Json::object_t&>());
  uint64_t offset = 0;
  std::set<std::string_view> names;
  for (const TensorSource& tensor : tensors) {
    const auto bytes = byte_count(tensor.dtype, tensor.shape);
    TRIREME_CHECK(bytes == tensor.bytes.size(), "tensor ", tensor.name, " of shape ", shape_text(tensor.shape), " has ",
                  tensor.bytes.size(), " bytes");
    TRIREME_CHECK(names.insert(tensor.name).second && tensor.name != "__metadata__", "tensor name ", tensor.name);
    const uint64_t end = offset + tensor.bytes.size();
    members.emplace_back(
        tensor.name,
        Json{{"dtype", std::string(name_of(tensor.dtype))}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = header.dump();
  // the data starts on a multiple of 8 bytes, as with Hugging Face's writer
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

std::optional<int64_t> element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return count;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& source) {
  if (file.size() < kLengthBytes)
    throw DataError(text_of(file_name(source), " is too short: it has ", file.size(),
                            " bytes, the length of its header alone takes ", kLengthBytes));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > file.size() - kLengthBytes)
    throw DataError(text_of(file_name(source), " is cut, or is no safetensors file: its header should have ", length,
                            " bytes, ", file.size() - kLengthBytes, " follow"));
  if (length > kMaxHeaderBytes)
    throw DataError(
        text_of(file_name(source), " has a header of ", length, " bytes, more than the allowed ", kMaxHeaderBytes));

  const Json json = parse_header_text(file.subspan(kLengthBytes, length), source);
  if (!json.is_object())
    throw DataError(text_of(file_name(source), ": the header must be an object, not ", shown(json)));
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  const uint64_t data_bytes = file.size() - header.data_offset;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      header.entries.push_back(read_entry(name, value, data_bytes, source));
      continue;
    }
    if (!value.is_object())
      throw DataError(text_of(file_name(source), ": __metadata__ must be an object, not ", shown(value)));
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        throw DataError(
            text_of(file_name(source), ": __metadata__ ", base::quoted(key), " must be a string, not ", shown(text)));
      header.metadata.emplace(key, text.get<std::string>());
    }
  }
  // tensors without bytes come first among those with the same begin
  std::ranges::stable_sort(header.entries, {},
                           [](const TensorEntry& entry) { return std::pair(entry.begin, entry.end); });
  check_cover(header.entries, data_bytes, source);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), header_(parse_safetensors_header(file_.bytes(), path)) {
  for (size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

const TensorEntry& SafetensorsFile::at(const std::string& name) const {
  if (const TensorEntry* entry = find(name)) return *entry;
  std::vector<std::string> names;
  for (const TensorEntry& entry : header_.entries) names.push_back(entry.name);
  throw DataError(text_of(file_name(path()), " has no tensor ", base::quoted(name, 200), did_you_mean(name, names)));
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry& entry) const {
  return file_.bytes().subspan(header_.data_offset + entry.begin, entry.bytes());
}

void SafetensorsFile::read(const TensorEntry& entry, uint64_t begin, std::span<std::byte> out) const {
  TRIREME_CHECK(begin <= entry.bytes() && out.size() <= entry.bytes() - begin, "tensor ", entry.name, " has ",
                entry.bytes(), " bytes; asked for ", out.size(), " from ", begin);
  file_.file().read(header_.data_offset + entry.begin + begin, out);
}

void write_safetensors(const std::string& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorSource> ordered(tensors.begin(), tensors.end());
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const TensorSource& tensor) { return size_of(tensor.dtype); });
  const std::string header = header_text(ordered, metadata);
  TRIREME_CHECK(header.size() <= kMaxHeaderBytes, "the header has ", header.size(), " bytes");
  const uint64_t length = header.size();

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const TensorSource& tensor : ordered) file.write(tensor.bytes);
  file.commit();
}

}  // namespace trireme::base
