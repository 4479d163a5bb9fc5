#include "trireme/layers/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/random.h"

namespace trireme::layers {

void Layers::append(Entry entry) {
  const bool repeated =
      std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == entry.name; });
  if (repeated) throw base::ConfigError("two layers are called '" + entry.name + "'; give each its own name");
  entries_.push_back(std::move(entry));
}

void internal::seed_default_generator(uint64_t seed, const std::string& layer) {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(base::hash(seed, layer));
}

}  // namespace trireme::layers
