#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/tokens.h"

using namespace trireme::base;

// Any bytes are refused with a DataError of one line, or header and tokens fill the file exactly.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  for (const TokenFormat format : {TokenFormat::Detect, TokenFormat::Bytes, TokenFormat::Uint16, TokenFormat::LlmC}) {
    for (const char* path : {"text.txt", "tokens.bin"}) {
      try {
        const auto first = file.first(std::min<size_t>(size, 1024));
        const TokenLayout layout = parse_token_layout(first, size, format, path);
        TRIREME_CHECK(layout.format != TokenFormat::Detect && layout.count > 0);
        const uint64_t tokens = static_cast<uint64_t>(layout.count) * static_cast<uint64_t>(layout.bytes_per_token);
        TRIREME_CHECK(layout.offset + tokens == size, layout.offset, " ", layout.count, " ", size);
      } catch (const DataError& error) {
        TRIREME_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, error.what());
      }
    }
  }
  return 0;
}
