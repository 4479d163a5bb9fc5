#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/backends.h"

namespace trireme::comm {
namespace {

// Gloo's work followed by a step of ours on the thread that finds it complete, which must run exactly once.
class FinishedWork final : public c10d::Work {
 public:
  FinishedWork(c10::intrusive_ptr<c10d::Work> work, std::function<void()> finish)
      : work_(std::move(work)), finish_(std::move(finish)) {}
  bool isCompleted() override {
    if (!work_->isCompleted()) return false;
    if (work_->isSuccess()) finish();
    return true;
  }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = work_->wait(timeout);
    finish();
    return done;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto work = c10::intrusive_ptr<FinishedWork>::reclaim_copy(this);
    return work_->getFuture()->then(
        [work](c10::ivalue::Future& done) {
          work->finish();
          return done.value();
        },
        c10::ListType::create(c10::TensorType::get()));
  }

 private:
  void finish() {
    if (finish_) std::exchange(finish_, nullptr)();
  }

  c10::intrusive_ptr<c10d::Work> work_;
  std::function<void()> finish_;
};

// An operation that was complete when it was posted.
class DoneWork final : public c10d::Work {
 public:
  explicit DoneWork(std::vector<at::Tensor> result) : result_(std::move(result)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(result_));
    return future;
  }

 private:
  std::vector<at::Tensor> result_;
};

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

class GlooBackend final : public c10d::Backend {
 public:
  explicit GlooBackend(const Membership& m)
      : Backend(m.rank, static_cast<int>(m.ranks.size())),
        gloo_(c10::make_intrusive<c10d::ProcessGroupGloo>(m.store, m.rank, static_cast<int>(m.ranks.size()),
                                                          c10d::ProcessGroupGloo::Options::create_default(m.timeout))) {
  }

  using Tensors = std::vector<at::Tensor>;
  using Handle = c10::intrusive_ptr<c10d::Work>;

  const std::string getBackendName() const override { return "gloo"; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }

  Handle broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return tensors[0].numel() ? gloo_->broadcast(tensors, options) : done(tensors);
  }

  Handle allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto& tensor = tensors[0];
    if (tensor.numel() == 0) return done(tensors);
    if (is_half(tensor)) {
      const auto padded = (tensor.numel() + getSize() - 1) / getSize() * getSize();
      auto input = at::zeros({padded}, tensor.options());
      input.narrow(0, 0, tensor.numel()).copy_(tensor.view({-1}));
      auto slice = reduce_half_slice(input, options.reduceOp, options.timeout);
      gloo_->_allgather_base(input, slice)->wait(options.timeout);
      tensor.view({-1}).copy_(input.narrow(0, 0, tensor.numel()));
      return done(tensors);
    }
    auto gloo_options = options;
    gloo_options.reduceOp = without_average(options.reduceOp, tensor);
    return averaged(gloo_->allreduce(tensors, gloo_options), options.reduceOp, tensor);
  }

  Handle reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    auto& tensor = tensors[0];
    if (tensor.numel() == 0) return done(tensors);
    if (is_half(tensor)) {
      auto copy = tensor.clone();
      Tensors copies{copy};
      c10d::AllreduceOptions all;
      all.reduceOp = options.reduceOp;
      all.timeout = options.timeout;
      allreduce(copies, all)->wait(options.timeout);
      if (getRank() == options.rootRank) tensor.copy_(copy);
      return done(tensors);
    }
    auto gloo_options = options;
    gloo_options.reduceOp = without_average(options.reduceOp, tensor);
    auto work = gloo_->reduce(tensors, gloo_options);
    return getRank() == options.rootRank ? averaged(work, options.reduceOp, tensor) : work;
  }

  Handle _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    if (input.numel() == 0) return done({output});
    auto source = output.storage().is_alias_of(input.storage()) ? input.clone() : input;
    return gloo_->_allgather_base(output, source, options);
  }

  Handle _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                              const c10d::ReduceScatterOptions& options) override {
    if (output.numel() == 0) return done({output});
    if (is_half(input)) {
      output.view({-1}).copy_(reduce_half_slice(input.view({-1}), options.reduceOp, options.timeout));
      return done({output});
    }
    auto gloo_options = options;
    gloo_options.reduceOp = without_average(options.reduceOp, output);
    auto source = output.storage().is_alias_of(input.storage()) ? input.clone() : input;
    return averaged(gloo_->_reduce_scatter_base(output, source, gloo_options), options.reduceOp, output);
  }

  Handle gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return inputs[0].numel() ? gloo_->gather(outputs, inputs, options) : done(inputs);
  }
  Handle scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    return outputs[0].numel() ? gloo_->scatter(outputs, inputs, options) : done(outputs);
  }
  Handle alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                       std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override {
    return gloo_->alltoall_base(output, input, output_splits, input_splits, options);
  }
  Handle send(Tensors& tensors, int to, int tag) override { return gloo_->send(tensors, to, tag); }
  Handle recv(Tensors& tensors, int from, int tag) override { return gloo_->recv(tensors, from, tag); }
  Handle barrier(const c10d::BarrierOptions& options) override { return gloo_->barrier(options); }

 private:
  static Handle done(Tensors result) { return c10::make_intrusive<DoneWork>(std::move(result)); }

  // gloo has no average: sum, then one division
  static c10d::ReduceOp without_average(const c10d::ReduceOp& op, const at::Tensor& tensor) {
    if (op != c10d::ReduceOp::AVG) return op;
    if (!tensor.is_floating_point())
      throw base::CommError(base::text_of("an average of ", tensor.scalar_type(),
                                          " would be cut to whole numbers; sum, or use a float tensor"));
    return c10d::ReduceOp::SUM;
  }
  Handle averaged(Handle work, const c10d::ReduceOp& op, const at::Tensor& tensor) const {
    if (op != c10d::ReduceOp::AVG) return work;
    return c10::make_intrusive<FinishedWork>(std::move(work),
                                             [tensor, size = getSize()] { at::Tensor(tensor).div_(size); });
  }

  // This rank's slice of the reduced 16-bit `input` [size * n]: accumulated in fp32 in rank order, rounded once.
  at::Tensor reduce_half_slice(const at::Tensor& input, const c10d::ReduceOp& op, std::chrono::milliseconds timeout) {
    auto received = at::empty_like(input), source = input;
    std::vector<int64_t> equal;
    c10d::AllToAllOptions options;
    options.timeout = timeout;
    gloo_->alltoall_base(received, source, equal, equal, options)->wait(timeout);
    auto rows = received.view({getSize(), -1});
    auto sum = rows[0].to(at::kFloat);
    for (int r = 1; r < getSize(); ++r) {
      auto row = rows[r].to(at::kFloat);
      switch (op) {
        case c10d::ReduceOp::SUM:
        case c10d::ReduceOp::AVG:
          sum.add_(row);
          break;
        case c10d::ReduceOp::MIN:
          sum = at::minimum(sum, row);
          break;
        case c10d::ReduceOp::MAX:
          sum = at::maximum(sum, row);
          break;
        case c10d::ReduceOp::PRODUCT:
          sum.mul_(row);
          break;
        default:
          throw base::CommError("this reduction is not defined for 16-bit floats");
      }
    }
    if (op == c10d::ReduceOp::AVG) sum.div_(getSize());
    return sum.to(input.scalar_type());
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Membership& membership) {
  return c10::make_intrusive<GlooBackend>(membership);
}

}  // namespace trireme::comm
