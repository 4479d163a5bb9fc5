// A checkpoint's manifest, with a checksum that fits, so that what lies behind the checksum is reached. What is
// accepted must come back from its own text.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checksum.h"
#include "trireme/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const std::string checksum = checkpoint::checksum_text(checkpoint::checksum_of(std::as_bytes(std::span(body))));
  try {
    const checkpoint::Manifest manifest =
        checkpoint::parse_manifest("{\"checksum\": \"" + checksum + "\",\n" + std::string(body), "fuzz");
    const std::string text = checkpoint::manifest_text(manifest);
    if (checkpoint::manifest_text(checkpoint::parse_manifest(text, "fuzz")) != text) std::abort();
  } catch (const base::DataError&) {
  }
  return 0;
}
