#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/reader.h"

using namespace trireme::base;

// Any text is parsed or refused with an Error of one line; what is parsed is parsed again to the same value, and a
// Reader takes every value of it as every type.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Json value = parse_json(text, "fuzz");
    TRIREME_CHECK(parse_json(value.dump(), "again", JsonComments::Refused) == value, text);

    Violations violations;
    Reader reader(value, "", violations);
    if (value.is_object()) {
      for (const auto& [key, member] : value.items()) {
        reader.get<int64_t>(key, 0, {.min = 1});
        reader.get<int>(key, 0);
        reader.get<double>(key, 0, {.max = 1.0, .max_open = true});
        reader.get<bool>(key, false);
        reader.get<std::string>(key, "", {.one_of = {"adam", "sgd"}});
        reader.get<std::vector<double>>(key, {}, {.element = {.min = 0.0}, .size = 2});
        reader.object(key).finish();
      }
    }
    reader.finish();
    for (const char byte : violations.text()) TRIREME_CHECK(byte == '\n' || byte < 0 || byte >= 0x20);
  } catch (const ConfigError& error) {
    TRIREME_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, error.what());
  }
  return 0;
}
