#include "trireme/comm/engine.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

struct Pass {
  int depth = 0;
  std::vector<BackwardObserver*> observers;
};
thread_local Pass pass;

class ObservedEngine final : public torch::autograd::Engine {
 public:
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    if (!accumulate_grad) return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    ++pass.depth;
    torch::autograd::variable_list result;
    try {
      result = Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    } catch (...) {
      if (--pass.depth == 0)
        for (auto* observer : std::exchange(pass.observers, {})) observer->backward_failed();
      throw;
    }
    if (--pass.depth == 0) end_outermost();
    return result;
  }

 private:
  static void end_outermost() {
    auto observers = std::exchange(pass.observers, {});
    for (size_t i = 0; i < observers.size(); ++i) {
      try {
        observers[i]->backward_ended();
      } catch (...) {
        for (size_t later = i + 1; later < observers.size(); ++later) observers[later]->backward_failed();
        throw;
      }
    }
  }
};

torch::autograd::Engine& observed_engine() {
  static auto* engine = new ObservedEngine;  // never destroyed: worker threads may outlive main
  return *engine;
}

}  // namespace

void install_engine() {
  static std::once_flag once;
  std::call_once(once, [] { torch::autograd::set_default_engine_stub(observed_engine); });
}

int backward_depth() {
  return pass.depth;
}

void join_backward(BackwardObserver* observer) {
  TRIREME_CHECK(pass.depth > 0);
  if (std::find(pass.observers.begin(), pass.observers.end(), observer) == pass.observers.end())
    pass.observers.push_back(observer);
}

void leave_backward(BackwardObserver* observer) noexcept {
  std::erase(pass.observers, observer);
}

}  // namespace trireme::comm
