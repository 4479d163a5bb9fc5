#include "trireme/pipeline_parallel/executor.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "trireme/base/error.h"

namespace trireme::pipeline_parallel {
namespace {

constexpr int64_t header_length = 10;  // dtype, dimensions, up to eight sizes

at::Tensor header_of(const at::Tensor& tensor) {
  TRIREME_CHECK(tensor.dim() <= header_length - 2, "a tensor of ", tensor.dim(), " dimensions between stages");
  auto header = at::zeros({header_length}, at::kLong);
  auto* out = header.data_ptr<int64_t>();
  *out++ = static_cast<int64_t>(tensor.scalar_type());
  *out++ = tensor.dim();
  for (auto size : tensor.sizes()) *out++ = size;
  return header;
}

}  // namespace

Executor::Executor(layers::Model& stage, comm::Group group,
                   std::function<layers::LossSum(const layers::Tensors&, const data::Batch&)> loss)
    : stage_(stage), group_(std::move(group)), loss_(std::move(loss)) {}

PipelineResult Executor::run(const Schedule& schedule, const std::vector<data::Batch>& batches, double backward_scale) {
  PipelineResult result;
  in_flight_.assign(batches.size(), {});
  for (const auto& action : schedule.at(group_.rank())) {
    TRIREME_CHECK(action.kind != ActionKind::W, "split backward is not built");
    if (action.kind == ActionKind::F)
      forward(action.micro_batch, batches[action.micro_batch], backward_scale, result);
    else
      backward(action.micro_batch);
  }
  for (auto& work : sending_) work.wait();
  sending_.clear();
  return result;
}

void Executor::forward(int micro_batch, const data::Batch& batch, double backward_scale, PipelineResult& result) {
  auto& flight = in_flight_[micro_batch];
  flight.inputs = group_.rank() == 0 ? batch.inputs : receive(group_.rank() - 1);
  if (group_.rank() > 0)
    for (auto& input : flight.inputs)
      if (input.is_floating_point()) input.requires_grad_(true);
  flight.outputs = stage_.forward(flight.inputs);
  if (group_.rank() + 1 < group_.size()) {
    send(flight.outputs, group_.rank() + 1);
    return;
  }
  const auto loss = loss_(flight.outputs, batch);
  result.loss_sum += loss.sum.item<double>();
  result.count += loss.count;
  flight.outputs = {loss.sum * backward_scale};
}

void Executor::backward(int micro_batch) {
  auto flight = std::exchange(in_flight_[micro_batch], {});
  layers::Tensors roots, gradients;
  const bool last = group_.rank() + 1 == group_.size();
  auto received = last ? layers::Tensors{} : receive(group_.rank() + 1);
  size_t next = 0;
  for (const auto& output : flight.outputs) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    if (!last) gradients.push_back(received.at(next++));
  }
  if (last) gradients.resize(roots.size());
  torch::autograd::backward(roots, gradients);
  if (group_.rank() == 0) return;
  layers::Tensors back;
  for (const auto& input : flight.inputs)
    if (input.requires_grad()) back.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
  send(back, group_.rank() - 1);
}

void Executor::send(const layers::Tensors& tensors, int to) {
  sending_.push_back(group_.send(at::full({1}, static_cast<int64_t>(tensors.size()), at::kLong), to));
  for (const auto& tensor : tensors) {
    const auto dense = tensor.detach().contiguous();
    sending_.push_back(group_.send(header_of(dense), to));
    sending_.push_back(group_.send(dense, to));
  }
}

layers::Tensors Executor::receive(int from) {
  auto count = at::zeros({1}, at::kLong);
  group_.recv(count, from).wait();
  layers::Tensors tensors;
  for (int64_t i = 0; i < count.item<int64_t>(); ++i) {
    auto header = at::zeros({header_length}, at::kLong);
    group_.recv(header, from).wait();
    const auto* in = header.data_ptr<int64_t>();
    tensors.push_back(at::empty(at::IntArrayRef(in + 2, in[1]), static_cast<at::ScalarType>(in[0])));
    group_.recv(tensors.back(), from).wait();
  }
  return tensors;
}

}  // namespace trireme::pipeline_parallel
