#include <cstdint>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/spec/config.h"
#include "trireme/spec/schedule.h"

using namespace trireme;

// Any text is refused with an Error, or gives a Config whose resolved form loads to itself and whose rates are finite.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const int world_size = size % 3 + 1;
    const spec::Config config = spec::config_from_json(base::parse_json(text, "fuzz"), world_size);
    const base::Json once = spec::resolved(config);
    TRIREME_CHECK(spec::resolved(spec::config_from_json(once, world_size)) == once, once.dump());
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{1} << 60}) {
      const double rate = spec::learning_rate(config, step);
      TRIREME_CHECK(rate >= 0 && rate < 1e300, rate);
    }
    if (const auto* gpt2 = std::get_if<spec::Gpt2Spec>(&config.model)) {
      spec::gpt2_from_huggingface(spec::huggingface_config(*gpt2), "export");
    }
  } catch (const base::Error&) {
    // refused, as most inputs are
  }
  return 0;
}
