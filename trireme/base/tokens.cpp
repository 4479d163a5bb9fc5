#include "trireme/base/tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::base {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are not swapped");

constexpr uint64_t kHeaderBytes = 256 * 4;

struct LlmCKind {
  uint32_t magic;
  uint32_t version;
  int bytes_per_token;
};
constexpr std::array<LlmCKind, 2> kLlmCKinds{{{20240520, 1, 2}, {20240801, 7, 4}}};

uint32_t word(std::span<const std::byte> bytes, size_t index) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + index * 4, 4);
  return value;
}

const LlmCKind* kind_with(uint32_t magic) {
  const auto kind = std::ranges::find(kLlmCKinds, magic, &LlmCKind::magic);
  return kind == kLlmCKinds.end() ? nullptr : &*kind;
}

TokenLayout llmc_layout(std::span<const std::byte> first, uint64_t file_size, const std::string& file) {
  if (first.size() < kHeaderBytes)
    throw DataError(text_of("token file ", file, " is cut within llm.c's header: it has ", file_size,
                            " bytes, the header alone ", kHeaderBytes));
  const LlmCKind* kind = kind_with(word(first, 0));
  if (kind == nullptr)
    throw DataError(text_of("token file ", file, " is not llm.c's: it starts with ", word(first, 0), ", not with ",
                            kLlmCKinds[0].magic, " or ", kLlmCKinds[1].magic));
  if (word(first, 1) != kind->version)
    throw DataError(text_of("token file ", file, " has llm.c version ", word(first, 1), "; with magic ", kind->magic,
                            " only version ", kind->version, " is known"));
  const uint64_t count = word(first, 2);
  const uint64_t expected = kHeaderBytes + count * static_cast<uint64_t>(kind->bytes_per_token);
  if (expected != file_size)
    throw DataError(text_of("token file ", file, " disagrees with its header: ", count, " tokens of ",
                            kind->bytes_per_token, " bytes make ", expected, " bytes, the file has ", file_size));
  return {TokenFormat::LlmC, kHeaderBytes, kind->bytes_per_token, static_cast<int64_t>(count)};
}

TokenFormat detected(std::span<const std::byte> first, const std::string& path) {
  if (!path.ends_with(".bin")) return TokenFormat::Bytes;
  return first.size() >= 4 && kind_with(word(first, 0)) != nullptr ? TokenFormat::LlmC : TokenFormat::Uint16;
}

template <class Stored>
void widen(const std::byte* from, std::span<int64_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof(Stored), sizeof(Stored));
    to[i] = value;
  }
}

}  // namespace

TokenFormat token_format_named(std::string_view name) {
  static constexpr std::pair<std::string_view, TokenFormat> formats[] = {{"auto", TokenFormat::Detect},
                                                                         {"text", TokenFormat::Bytes},
                                                                         {"uint16", TokenFormat::Uint16},
                                                                         {"llmc", TokenFormat::LlmC}};
  for (const auto& [known, format] : formats)
    if (known == name) return format;
  throw UsageError(text_of("there is no data format '", name, "'; one of auto, text, uint16, llmc"));
}

TokenLayout parse_token_layout(std::span<const std::byte> first_bytes, uint64_t file_size, TokenFormat format,
                               const std::string& path) {
  const std::string file = base::quoted(path, 4096);
  if (file_size == 0) throw DataError(text_of("token file ", file, " is empty"));
  if (format == TokenFormat::Detect) format = detected(first_bytes, path);

  TokenLayout layout;
  if (format == TokenFormat::LlmC) {
    layout = llmc_layout(first_bytes, file_size, file);
  } else if (format == TokenFormat::Uint16) {
    if (file_size % 2 != 0)
      throw DataError(text_of("token file ", file, " ends within a token: it has ", file_size,
                              " bytes, an odd number, and each uint16 token has 2; a text file must not end in .bin"));
    layout = {TokenFormat::Uint16, 0, 2, static_cast<int64_t>(file_size / 2)};
  } else {
    layout = {TokenFormat::Bytes, 0, 1, static_cast<int64_t>(file_size)};
  }
  if (layout.count == 0) throw DataError(text_of("token file ", file, " holds no tokens: its header says 0"));
  return layout;
}

TokenFile::TokenFile(const std::string& path, TokenFormat format) : file_(path) {
  std::vector<std::byte> first(std::min<uint64_t>(file_.size(), kHeaderBytes));
  file_.read(0, first);
  layout_ = parse_token_layout(first, file_.size(), format, path);
}

void TokenFile::read(int64_t begin, std::span<int64_t> out, int64_t vocabulary) const {
  const auto count = static_cast<int64_t>(out.size());
  TRIREME_CHECK(begin >= 0 && begin <= size() && count <= size() - begin, path(), " has ", size(),
                " tokens; asked for ", count, " from ", begin);
  const auto width = static_cast<size_t>(layout_.bytes_per_token);
  std::array<std::byte, 1 << 15> buffer;
  for (int64_t done = 0; done < count;) {
    const auto now = std::min<int64_t>(count - done, static_cast<int64_t>(buffer.size() / width));
    const std::span<int64_t> part = out.subspan(static_cast<size_t>(done), static_cast<size_t>(now));
    file_.read(layout_.offset + static_cast<uint64_t>(begin + done) * width,
               std::span(buffer).first(part.size() * width));
    if (width == 1) {
      widen<uint8_t>(buffer.data(), part);
    } else if (width == 2) {
      widen<uint16_t>(buffer.data(), part);
    } else {
      widen<uint32_t>(buffer.data(), part);
    }
    const auto wrong = std::ranges::find_if(part, [&](int64_t token) { return token >= vocabulary; });
    if (wrong != part.end())
      throw DataError(text_of("token file ", base::quoted(path(), 4096), " holds token ", *wrong, " at position ",
                              begin + done + (wrong - part.begin()), ", but the vocabulary has ", vocabulary, " (0 to ",
                              vocabulary - 1, "); raise model.vocab_size, or say what the file is with data.format"));
    done += now;
  }
}

void TokenFile::check(int64_t vocabulary) const {
  const int64_t values = int64_t{1} << (8 * layout_.bytes_per_token);
  if (vocabulary >= values) return;
  std::vector<int64_t> window(1 << 15);
  for (int64_t begin = 0; begin < size(); begin += static_cast<int64_t>(window.size())) {
    const auto count = std::min<int64_t>(size() - begin, static_cast<int64_t>(window.size()));
    read(begin, std::span(window).first(static_cast<size_t>(count)), vocabulary);
  }
}

}  // namespace trireme::base
