#include "trireme/layers/flat_store.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::layers {
namespace {

void refuse_overlap(const std::vector<Parameter>& parameters) {
  struct Range {
    const char* begin;
    const char* end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  for (const auto& parameter : parameters) {
    const auto& tensor = parameter.tensors[0];
    if (tensor.numel() == 0) continue;
    int64_t last = 0;
    for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
    const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
    ranges.push_back({begin, begin + (last + 1) * static_cast<int64_t>(tensor.element_size()), &parameter.name});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end)
      throw base::ConfigError("parameters " + *ranges[i - 1].name + " and " + *ranges[i].name +
                              " overlap in memory; clone one, or register one tensor under both names");
}

at::Tensor on_storage(const at::Tensor& storage, int64_t offset, at::IntArrayRef sizes) {
  auto tensor = at::empty({0}, storage.options());
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (auto d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  tensor.set_(storage.storage(), storage.storage_offset() + offset, sizes, strides);
  return tensor;
}

}  // namespace

std::vector<FlatParameter> flat_parameters(const std::vector<Parameter>& parameters) {
  refuse_overlap(parameters);
  std::vector<FlatParameter> flat;
  for (const auto& parameter : parameters) {
    const auto& tensor = parameter.tensors[0];
    flat.push_back({.name = parameter.name,
                    .elements = tensor.numel(),
                    .dtype = tensor.scalar_type(),
                    .trainable = tensor.requires_grad(),
                    .group = 0,
                    .layer = parameter.layer});
  }
  return flat;
}

FlatGradients::FlatGradients(std::vector<Parameter> parameters, FlatLayout layout, const comm::Group& group)
    : parameters_(std::move(parameters)), layout_(std::move(layout)) {
  for (const auto& space : layout_.spaces)
    flat_.push_back(space.trainable ? group.allocate({space.size}, space.dtype) : at::Tensor());
}

bool FlatGradients::trainable(int parameter) const {
  return layout_.spaces[layout_.slots[parameter].space].trainable;
}

at::Tensor FlatGradients::bucket(int space, int bucket) const {
  const auto& range = layout_.spaces[space].buckets[bucket];
  return flat_[space].narrow(0, range.begin, range.end - range.begin);
}

at::Tensor FlatGradients::alias(int parameter, const at::Tensor& storage, int64_t origin) const {
  return on_storage(storage, layout_.slots[parameter].begin - origin, parameters_[parameter].tensors[0].sizes());
}

void FlatGradients::install(int parameter) const {
  for (const auto& tensor : parameters_[parameter].tensors) tensor.mutable_grad() = alias(parameter);
}

bool FlatGradients::installed(int parameter, const at::Tensor& tensor) const {
  const auto& grad = tensor.grad();
  const auto& slot = layout_.slots[parameter];
  return grad.defined() && grad.is_alias_of(flat_[slot.space]) &&
         grad.storage_offset() == flat_[slot.space].storage_offset() + slot.begin;
}

void FlatGradients::zero() const {
  for (const auto& flat : flat_)
    if (flat.defined()) flat.zero_();
}

FlatParameters::FlatParameters(const std::vector<Parameter>& parameters, const FlatLayout& layout)
    : parameters_(parameters), slots_(layout.slots) {
  at::NoGradGuard no_grad;
  for (const auto& space : layout.spaces)
    flat_.push_back(at::zeros({space.size}, at::TensorOptions().dtype(space.dtype)));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& tensors = parameters_[i].tensors;
    auto slot = on_storage(flat_[slots_[i].space], slots_[i].begin, tensors[0].sizes());
    slot.copy_(tensors[0]);
    for (auto& tensor : tensors)
      tensor.set_data(on_storage(flat_[slots_[i].space], slots_[i].begin, tensors[0].sizes()));
  }
}

void FlatParameters::check_in_place() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& flat = flat_[slots_[i].space];
    const auto* expected =
        static_cast<const char*>(flat.const_data_ptr()) + slots_[i].begin * static_cast<int64_t>(flat.element_size());
    for (const auto& tensor : parameters_[i].tensors)
      if (tensor.numel() && tensor.const_data_ptr() != expected)
        throw base::ConfigError("parameter " + parameters_[i].name +
                                " was moved out of the trainer's storage (to(), set_data()); change it in place");
  }
}

}  // namespace trireme::layers
