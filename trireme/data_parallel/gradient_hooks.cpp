#include "trireme/data_parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::data_parallel {
namespace {

using torch::autograd::variable_list;

struct Before final : torch::autograd::FunctionPreHook {
  Before(GradientListener& l, int p, int u) : listener(l), parameter(p), user(u) {}
  variable_list operator()(const variable_list& gradients) override {
    listener.gradient_coming(parameter, user);
    return gradients;
  }
  GradientListener& listener;
  int parameter, user;
};

struct After final : torch::autograd::FunctionPostHook {
  After(GradientListener& l, int p, int u) : listener(l), parameter(p), user(u) {}
  variable_list operator()(const variable_list& outputs, const variable_list& gradients) override {
    listener.gradient_accumulated(parameter, user, !gradients.empty() && gradients[0].defined());
    return outputs;
  }
  GradientListener& listener;
  int parameter, user;
};

}  // namespace

struct GradientHooks::Hooked {
  c10::intrusive_ptr<torch::autograd::Node> node;  // the tensor holds it weakly
  torch::autograd::FunctionPreHook* before = nullptr;
  uintptr_t after = 0;
};

GradientHooks::GradientHooks(const std::vector<layers::Parameter>& parameters, GradientListener& listener) {
  for (const auto& parameter : parameters)
    for (const auto& tensor : parameter.tensors) {
      if (!tensor.requires_grad()) continue;
      const auto node = torch::autograd::impl::grad_accumulator(tensor);
      for (const auto& hook : node->pre_hooks())
        if (dynamic_cast<Before*>(hook.get()))
          throw base::ConfigError("parameter " + parameter.name +
                                  " is already data parallel; wrap a module once, the outermost one");
    }
  for (size_t p = 0; p < parameters.size(); ++p)
    for (size_t u = 0; u < parameters[p].tensors.size(); ++u) {
      const auto& tensor = parameters[p].tensors[u];
      if (!tensor.requires_grad()) continue;
      Hooked hooked;
      hooked.node = torch::autograd::impl::grad_accumulator(tensor);
      auto before = std::make_unique<Before>(listener, static_cast<int>(p), static_cast<int>(u));
      hooked.before = before.get();
      hooked.node->add_pre_hook(std::move(before));
      hooked.after =
          hooked.node->add_post_hook(std::make_unique<After>(listener, static_cast<int>(p), static_cast<int>(u)));
      hooked_.push_back(std::move(hooked));
    }
}

GradientHooks::~GradientHooks() {
  for (auto& hooked : hooked_) {
    hooked.node->del_post_hook(hooked.after);
    std::erase_if(hooked.node->pre_hooks(), [&](const auto& hook) { return hook.get() == hooked.before; });
  }
}

}  // namespace trireme::data_parallel
