#include "trireme/layers/flat_layout.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::layers {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout flat_layout(const std::vector<FlatParameter>& parameters, const FlatOptions& options) {
  TRIREME_CHECK(options.ranks >= 1 && options.page_bytes % 64 == 0);
  FlatLayout layout;
  layout.slots.resize(parameters.size());
  std::vector<int> last_layer;  // of each space's open bucket
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const auto& parameter = parameters[i];
    auto same = [&](const FlatSpace& s) {
      return s.dtype == parameter.dtype && s.trainable == parameter.trainable && s.group == parameter.group;
    };
    auto found = std::find_if(layout.spaces.begin(), layout.spaces.end(), same);
    const int index = static_cast<int>(found - layout.spaces.begin());
    if (found == layout.spaces.end()) {
      layout.spaces.push_back({parameter.dtype, parameter.trainable, parameter.group, 0, {}});
      last_layer.push_back(parameter.layer);
    }
    auto& space = layout.spaces[index];
    const auto item = static_cast<int64_t>(c10::elementSize(parameter.dtype));
    const auto unit = options.page_bytes / item * options.ranks;
    const bool may_close = !options.whole_layers || last_layer[index] != parameter.layer;
    const bool full = !space.buckets.empty() && options.bucket_elements > 0 && may_close &&
                      space.size - space.buckets.back().begin >= options.bucket_elements;
    if (space.buckets.empty() || full) {
      if (full)
        space.size = space.buckets.back().end =
            space.buckets.back().begin + round_up(space.size - space.buckets.back().begin, unit);
      space.buckets.push_back({space.size, space.size, {}});
    }
    last_layer[index] = parameter.layer;
    layout.slots[i] = {index, static_cast<int>(space.buckets.size()) - 1, space.size};
    space.buckets.back().parameters.push_back(i);
    space.size += round_up(parameter.elements * item, 64) / item;
  }
  for (auto& space : layout.spaces) {
    const auto unit = options.page_bytes / static_cast<int64_t>(c10::elementSize(space.dtype)) * options.ranks;
    auto& bucket = space.buckets.back();
    space.size = bucket.end = bucket.begin + round_up(space.size - bucket.begin, unit);
  }
  return layout;
}

int64_t bucket_elements_for(const std::vector<FlatParameter>& parameters, int ranks, int count) {
  int64_t total = 0;
  for (const auto& parameter : parameters) total += parameter.trainable ? parameter.elements : 0;
  const auto buckets = [&](int64_t elements) {
    int made = 0;
    for (const auto& space : flat_layout(parameters, {.ranks = ranks, .bucket_elements = elements}).spaces)
      made += space.trainable ? static_cast<int>(space.buckets.size()) : 0;
    return made;
  };
  int64_t elements = total / count;
  while (elements > 1024 && buckets(elements) < count) elements = elements * 3 / 4;
  return std::max<int64_t>(elements, 1024);
}

}  // namespace trireme::layers
