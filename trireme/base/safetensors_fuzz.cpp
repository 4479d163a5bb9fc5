#include <cstdint>
#include <span>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/safetensors.h"

using namespace trireme::base;

// Any bytes are refused with a DataError of one line, or every tensor lies in the file and has the bytes of its shape.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = std::as_bytes(std::span(data, size));
    const SafetensorsHeader header = parse_safetensors_header(file, "fuzz");
    uint64_t covered = header.data_offset;
    for (const TensorEntry& entry : header.entries) {
      TRIREME_CHECK(header.data_offset + entry.begin == covered, entry.name);
      const auto elements = element_count(entry.shape);
      TRIREME_CHECK(elements && static_cast<uint64_t>(*elements) * size_of(entry.dtype) == entry.bytes(), entry.name);
      covered += entry.bytes();
    }
    TRIREME_CHECK(covered == size, covered, " ", size);
  } catch (const DataError& error) {
    TRIREME_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, error.what());
  }
  return 0;
}
