#include "trireme/checkpoint/plain_loop.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <deque>

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/base/random.h"
#include "trireme/checkpoint/generator.h"
#include "trireme/checkpoint/load.h"
#include "trireme/checkpoint/optimizer_state.h"
#include "trireme/checkpoint/save.h"
#include "trireme/checkpoint/torch_tensor.h"
#include "trireme/comm/group.h"

namespace trireme::checkpoint {
namespace {

using base::text_of;

/// The tensors of the module under the names they have in the checkpoint.
std::vector<NamedTensor> tensors_of(torch::nn::Module& module, bool with_buffers) {
  std::vector<NamedTensor> named;
  for (const auto& item : module.named_parameters()) named.push_back({"model/" + item.key(), item.value()});
  if (with_buffers)
    for (const auto& item : module.named_buffers())
      if (item.value().defined()) named.push_back({"buffer/" + item.key(), item.value()});
  return named;
}

void read_into(const Checkpoint& checkpoint, const NamedTensor& target) {
  checkpoint.read(whole_tensor(target.name, target.tensor));
}

/// What the module lacks is as wrong as what the checkpoint lacks.
void refuse_strangers(const Checkpoint& checkpoint, const std::vector<NamedTensor>& wanted) {
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (!info.name.starts_with("model/") && !info.name.starts_with("buffer/")) continue;
    if (std::none_of(wanted.begin(), wanted.end(), [&](const NamedTensor& tensor) { return tensor.name == info.name; }))
      throw base::DataError(
          text_of("the module has no ", base::quoted(info.name), ", which is in ", checkpoint.folder()));
  }
}

/// The generator state with which this rank goes on: its own of a run on as many ranks; with another number a new one,
/// since none of the saved streams may be given to two ranks.
at::Tensor continued_random_state(const Checkpoint& checkpoint, int rank, bool same_ranks) {
  at::Tensor state = generator_state();
  read_into(checkpoint, {generator_name(same_ranks ? rank : 0), state});
  if (same_ranks) return state;
  const std::string_view bytes(static_cast<const char*>(state.const_data_ptr()), static_cast<size_t>(state.numel()));
  at::Generator fresh = at::detail::createCPUGenerator(base::hash(static_cast<uint64_t>(rank), bytes));
  return fresh.get_state();
}

}  // namespace

void save_checkpoint(const std::string& path, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                     const comm::Group& group, const base::Json& extra) {
  const auto [options, moments] = optimizer_state(optimizer, named_parameters(module));
  std::vector<NamedTensor> tensors = tensors_of(module, group.rank() == 0);
  tensors.insert(tensors.end(), moments.begin(), moments.end());
  tensors.push_back({generator_name(group.rank()), generator_state()});

  SaveRequest request;
  request.state = {{"optimizer", options}, {"ranks", group.size()}, {"extra", extra}};
  std::deque<at::Tensor> memory;
  for (const NamedTensor& tensor : tensors)
    request.tensors.push_back(whole_tensor(tensor.name, tensor.tensor, memory.emplace_back()));
  save_to(path, request, group);
}

base::Json load_checkpoint(const std::string& path, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                           const comm::Group& group) {
  const Checkpoint checkpoint(path);
  const base::Json& state = checkpoint.state();
  for (const char* key : {"optimizer", "ranks", "extra"})
    if (!state.is_object() || !state.contains(key))
      throw base::DataError(text_of(path, " was not written by save_checkpoint, its state has no '", key, "'"));

  const std::vector<NamedTensor> targets = tensors_of(module, true);
  refuse_strangers(checkpoint, targets);
  // everything is read before anything is changed
  std::vector<at::Tensor> values;
  for (const NamedTensor& target : targets) {
    values.push_back(at::empty(target.tensor.sizes(), target.tensor.options().device(at::kCPU).requires_grad(false)));
    read_into(checkpoint, {target.name, values.back()});
  }
  const at::Tensor random = continued_random_state(checkpoint, group.rank(), state["ranks"] == group.size());
  load_optimizer_state(optimizer, state["optimizer"], named_parameters(module),
                       [&](const NamedTensor& moment) { read_into(checkpoint, moment); });
  set_generator_state(random);
  const torch::NoGradGuard guard;
  for (size_t i = 0; i < targets.size(); ++i) {
    at::Tensor target = targets[i].tensor;
    target.copy_(values[i]);
  }
  return state["extra"];
}

}  // namespace trireme::checkpoint
