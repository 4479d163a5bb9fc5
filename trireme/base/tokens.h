#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "trireme/base/file.h"

// Files of tokens.
//
//   Bytes   any file: one token a byte (text)
//   Uint16  nanoGPT's .bin: little-endian uint16, no header
//   LlmC    llm.c's .bin: 256 int32 of header {magic, version, count, 0…}; magic 20240520 version 1: uint16 tokens
//   (GPT-2),
//           magic 20240801 version 7: uint32 tokens (Llama 3)
namespace trireme::base {

enum class TokenFormat {
  /// LlmC if the name ends in .bin and the first word is one of the magic numbers, Uint16 for another .bin, else Bytes.
  Detect,
  Bytes,
  Uint16,
  LlmC
};

/// "auto", "text", "uint16", "llmc", as a configuration says it; UsageError for another name.
TokenFormat token_format_named(std::string_view name);

/// Where the tokens lie in a file.
struct TokenLayout {
  TokenFormat format = TokenFormat::Bytes;
  uint64_t offset = 0;
  int bytes_per_token = 1;
  int64_t count = 0;
};

/// Reads the layout from the first bytes of a file (up to 1024 are looked at) and its size. DataError if it is empty,
/// is cut within a token, or has a header that is unknown or disagrees with the size.
TokenLayout parse_token_layout(std::span<const std::byte> first_bytes, uint64_t file_size, TokenFormat format,
                               const std::string& path);

/// An open file of tokens. All members are callable from several threads. The file is read with pread(2) and not
/// through a mapping: a file that shrinks meanwhile gives a DataError instead of SIGBUS, and its pages are not counted
/// to the process.
class TokenFile {
 public:
  explicit TokenFile(const std::string& path, TokenFormat format = TokenFormat::Detect);

  const std::string& path() const { return file_.path(); }
  TokenFormat format() const { return layout_.format; }
  /// Tokens in the file, at least 1.
  int64_t size() const { return layout_.count; }

  /// Tokens [begin, begin + out.size()). DataError with position and value if one is not below `vocabulary`.
  void read(int64_t begin, std::span<int64_t> out, int64_t vocabulary = std::numeric_limits<int64_t>::max()) const;

  /// Reads all tokens; DataError with position and value of the first that is not below `vocabulary`.
  void check(int64_t vocabulary) const;

 private:
  InputFile file_;
  TokenLayout layout_;
};

}  // namespace trireme::base
