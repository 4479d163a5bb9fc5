#include "trireme/data_parallel/replicate.h"

#include <ATen/ATen.h>

#include <cstring>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/comm/objects.h"

namespace trireme::data_parallel {
namespace {

std::string describe(const at::Tensor& tensor) {
  return base::text_of(tensor.sizes(), " ", tensor.scalar_type(), tensor.requires_grad() ? "" : " without gradient");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void compare_models(const comm::Group& group, const std::vector<layers::Parameter>& parameters,
                    const std::vector<layers::Buffer>& buffers) {
  std::string own;
  for (const auto& parameter : parameters)
    own += "parameter " + parameter.name + " " + describe(parameter.tensors[0]) + "\n";
  for (const auto& buffer : buffers) own += "buffer " + buffer.name + " " + describe(buffer.tensor) + "\n";
  const auto texts = comm::all_gather_strings(group, own);
  const auto first = lines_of(texts[0]);
  for (int r = 1; r < group.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    const auto other = lines_of(texts[r]);
    size_t i = 0;
    while (i < first.size() && i < other.size() && first[i] == other[i]) ++i;
    throw base::ConfigError(base::text_of("the ranks hold different models: rank ", group.ranks()[0], " has ",
                                          i < first.size() ? first[i] : "nothing more", ", rank ", group.ranks()[r],
                                          " has ", i < other.size() ? other[i] : "nothing more",
                                          "; build the same module on every rank"));
  }
}

void broadcast_values(const comm::Group& group, const std::vector<at::Tensor>& tensors, int root) {
  if (group.size() == 1) return;
  at::NoGradGuard no_grad;
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  auto flat = at::empty({bytes}, at::kByte);
  auto* cursor = static_cast<char*>(flat.data_ptr());
  for (const auto& tensor : tensors) {
    const auto values = tensor.detach().contiguous();
    if (values.nbytes()) std::memcpy(cursor, values.const_data_ptr(), values.nbytes());
    cursor += values.nbytes();
  }
  group.broadcast(flat, root).wait();
  if (group.rank() == root) return;
  cursor = static_cast<char*>(flat.data_ptr());
  for (const auto& tensor : tensors) {
    if (tensor.nbytes() == 0) continue;
    if (tensor.is_contiguous())
      std::memcpy(tensor.data_ptr(), cursor, tensor.nbytes());
    else
      tensor.detach().copy_(at::from_blob(cursor, tensor.sizes(), tensor.options().requires_grad(false)));
    cursor += tensor.nbytes();
  }
}

std::vector<at::Tensor> tensors_of(const std::vector<layers::Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : parameters) tensors.push_back(parameter.tensors[0]);
  return tensors;
}

std::vector<at::Tensor> tensors_of(const std::vector<layers::Buffer>& buffers) {
  std::vector<at::Tensor> tensors;
  for (const auto& buffer : buffers) tensors.push_back(buffer.tensor);
  return tensors;
}

}  // namespace trireme::data_parallel
