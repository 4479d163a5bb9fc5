#include "trireme/comm/objects.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/comm/agreement.h"

namespace trireme::comm {
namespace {

at::Tensor bytes_of(const std::string& text, int64_t padded) {
  auto bytes = at::zeros({padded}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

std::vector<std::string> all_gather_strings(const Group& group, const std::string& text) {
  auto lengths = at::zeros({group.size()}, at::kLong);
  group.all_gather_into_tensor(lengths, at::full({1}, static_cast<int64_t>(text.size()), at::kLong)).wait();
  const auto longest = lengths.max().item<int64_t>();
  auto all = at::zeros({group.size() * longest}, at::kByte);
  group.all_gather_into_tensor(all, bytes_of(text, longest)).wait();
  std::vector<std::string> texts;
  for (int r = 0; r < group.size(); ++r)
    texts.emplace_back(static_cast<const char*>(all.data_ptr()) + r * longest, lengths[r].item<int64_t>());
  return texts;
}

std::string broadcast_string(const Group& group, const std::string& text, int root) {
  auto length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  group.broadcast(length, root).wait();
  auto bytes =
      group.rank() == root ? bytes_of(text, length.item<int64_t>()) : at::zeros({length.item<int64_t>()}, at::kByte);
  group.broadcast(bytes, root).wait();
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(bytes.numel())};
}

void together(const Group& group, const std::function<void()>& action) {
  try {
    agree([&](const std::string& text) { return all_gather_strings(group, text); },
          [&] {
            action();
            return base::Json();
          });
  } catch (const Failure& failure) {
    const std::string who = failure.rank == 0 ? "" : base::text_of("rank ", group.ranks()[failure.rank], ": ");
    throw_error(failure, who + failure.text);
  }
}

}  // namespace trireme::comm
