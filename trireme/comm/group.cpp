#include "trireme/comm/group.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "trireme/base/error.h"
#include "trireme/comm/backends.h"
#include "trireme/comm/dtype.h"
#include "trireme/comm/group_state.h"

namespace trireme::comm {
namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::Average:
      return c10d::ReduceOp::AVG;
    case ReduceOp::Min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::Max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::Product:
      return c10d::ReduceOp::PRODUCT;
  }
  TRIREME_CHECK(false);
}

void check_tensor(const GroupState& group, const char* operation, const at::Tensor& tensor) {
  if (!tensor.defined())
    throw base::CommError(base::text_of(operation, " on group '", group.name, "' got an undefined tensor"));
  if (!tensor.device().is_cpu())
    throw base::CommError(base::text_of("backend '", group.backend_name, "' serves cpu tensors, ", operation,
                                        " got one on ", tensor.device().str(),
                                        "; use the nccl backend or move the tensor"));
  if (!dtype_of(tensor.scalar_type()))
    throw base::CommError(base::text_of(operation, " on group '", group.name, "' got ", tensor.scalar_type(),
                                        " elements; convert them to a plain float or integer type"));
  if (tensor.layout() != at::kStrided || !tensor.is_contiguous())
    throw base::CommError(base::text_of(operation, " on group '", group.name, "' needs a contiguous tensor, got sizes ",
                                        tensor.sizes(), " strides ", tensor.strides(), "; pass tensor.contiguous()"));
}

void check_multiple(const GroupState& group, const char* operation, const at::Tensor& whole, const at::Tensor& part) {
  const auto size = static_cast<int64_t>(group.ranks.size());
  if (whole.numel() != part.numel() * size || whole.scalar_type() != part.scalar_type())
    throw base::CommError(base::text_of(operation, " on group '", group.name, "' of ", size, " ranks: ", whole.numel(),
                                        " ", whole.scalar_type(), " elements are not ", size, " x ", part.numel(), " ",
                                        part.scalar_type()));
}

void check_root(const GroupState& group, const char* operation, int root) {
  if (root < 0 || root >= static_cast<int>(group.ranks.size()))
    throw base::CommError(base::text_of(operation, " on group '", group.name, "': rank ", root, " is not in 0..",
                                        group.ranks.size() - 1));
}

void surface_dropped(GroupState& group) {
  for (auto& dropped : std::exchange(group.dropped, {})) {
    if (!dropped.work->isCompleted())
      group.dropped.push_back(std::move(dropped));
    else if (!dropped.work->isSuccess()) {
      try {
        std::rethrow_exception(dropped.work->exception());
      } catch (...) {
        group.explain(dropped.what, group.timeout);
      }
    }
  }
}

// Posts one operation: gives it a number, surfaces errors of dropped ones.
template <class Call>
Work post(const std::shared_ptr<GroupState>& group, OperationName what, Call&& call) {
  if (!group->dropped.empty()) surface_dropped(*group);
  what.sequence = ++group->sequence;
  try {
    auto work = call(*group->backend);
    return Work(std::make_unique<PostedWork>(std::move(work), group, std::move(what)));
  } catch (...) {
    group->explain(what, group->timeout);
  }
}
void copy_unless_same(const at::Tensor& to, const at::Tensor& from) {
  if (to.data_ptr() != from.data_ptr()) at::Tensor(to).view({-1}).copy_(from.reshape({-1}));
}

std::vector<at::Tensor> parts(const at::Tensor& whole, int64_t count) {
  return whole.view({count, -1}).unbind(0);
}

}  // namespace

PostedWork::PostedWork(c10::intrusive_ptr<c10d::Work> w, std::shared_ptr<GroupState> g, OperationName name)
    : work(std::move(w)), group(std::move(g)), what(std::move(name)) {}

std::string OperationName::text(const std::string& group) const {
  const std::string quoted = label.empty() ? "" : " '" + label + "'";
  return base::text_of(name, quoted, " ", sequence, " of group '", group, "'");
}

PostedWork::~PostedWork() {
  if (work && !(work->isCompleted() && work->isSuccess())) group->dropped.push_back({std::move(work), std::move(what)});
}

Work::Work(std::unique_ptr<PostedWork> posted) : posted_(std::move(posted)) {}
Work::Work() = default;
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() {
  if (posted_) wait(posted_->group->timeout);
}

void Work::wait(std::chrono::milliseconds timeout) {
  if (!posted_) return;
  const auto posted = std::move(posted_);
  const auto work = std::exchange(posted->work, nullptr);
  GroupState& group = *posted->group;
  const OperationName& what = posted->what;
  try {
    if (group.communicator) {  // which tells the board itself, once a wait is not short
      work->wait(timeout);
    } else {
      const shm::StatusWait told(group.status, what.name, group.name, what.sequence, what.bytes);
      work->wait(timeout);
    }
  } catch (...) {
    group.explain(what, timeout);
  }
  if (!what.label.empty() && group.status) group.status->set_barrier(what.label);
}

bool Work::done() {
  if (!posted_) return true;
  if (posted_->group->communicator) posted_->group->communicator->progress();
  return posted_->work->isCompleted();
}

int Group::rank() const {
  return state_->rank;
}
int Group::size() const {
  return static_cast<int>(state_->ranks.size());
}
const std::string& Group::name() const {
  return state_->name;
}
const std::vector<int>& Group::ranks() const {
  return state_->ranks;
}
const std::string& Group::backend() const {
  return state_->backend_name;
}
c10::intrusive_ptr<c10d::Backend> Group::c10d_backend() const {
  return state_->backend;
}

Work Group::all_reduce(const at::Tensor& tensor, ReduceOp op) const {
  check_tensor(*state_, "all_reduce", tensor);
  if (size() == 1) return {};
  return post(state_, {.name = "all_reduce", .bytes = tensor.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    options.timeout = state_->timeout;
    return backend.allreduce(tensors, options);
  });
}

Work Group::all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input) const {
  check_tensor(*state_, "all_gather_into_tensor", output);
  check_tensor(*state_, "all_gather_into_tensor", input);
  check_multiple(*state_, "all_gather_into_tensor", output, input);
  if (size() == 1) return copy_unless_same(output, input), Work();
  return post(state_, {.name = "all_gather", .bytes = output.nbytes()}, [&](c10d::Backend& backend) {
    auto out = output, in = input;
    c10d::AllgatherOptions options;
    options.timeout = state_->timeout;
    return backend._allgather_base(out, in, options);
  });
}

Work Group::reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input, ReduceOp op) const {
  check_tensor(*state_, "reduce_scatter_tensor", output);
  check_tensor(*state_, "reduce_scatter_tensor", input);
  check_multiple(*state_, "reduce_scatter_tensor", input, output);
  if (size() == 1) return copy_unless_same(output, input), Work();
  return post(state_, {.name = "reduce_scatter", .bytes = input.nbytes()}, [&](c10d::Backend& backend) {
    auto out = output, in = input;
    c10d::ReduceScatterOptions options;
    options.reduceOp = to_c10d(op);
    options.timeout = state_->timeout;
    return backend._reduce_scatter_base(out, in, options);
  });
}

Work Group::broadcast(const at::Tensor& tensor, int root) const {
  check_tensor(*state_, "broadcast", tensor);
  check_root(*state_, "broadcast", root);
  if (size() == 1) return {};
  return post(state_, {.name = "broadcast", .bytes = tensor.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = state_->timeout;
    return backend.broadcast(tensors, options);
  });
}

Work Group::reduce(const at::Tensor& tensor, int root, ReduceOp op) const {
  check_tensor(*state_, "reduce", tensor);
  check_root(*state_, "reduce", root);
  if (size() == 1) return {};
  return post(state_, {.name = "reduce", .bytes = tensor.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::ReduceOptions options;
    options.reduceOp = to_c10d(op);
    options.rootRank = root;
    options.timeout = state_->timeout;
    return backend.reduce(tensors, options);
  });
}

Work Group::gather(const at::Tensor& output, const at::Tensor& input, int root) const {
  check_tensor(*state_, "gather", input);
  check_root(*state_, "gather", root);
  if (rank() == root) {
    check_tensor(*state_, "gather", output);
    check_multiple(*state_, "gather", output, input);
  }
  if (size() == 1) return copy_unless_same(output, input), Work();
  return post(state_, {.name = "gather", .bytes = input.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> in{input};
    std::vector<std::vector<at::Tensor>> out;
    if (rank() == root) out.push_back(parts(output, size()));
    c10d::GatherOptions options;
    options.rootRank = root;
    options.timeout = state_->timeout;
    return backend.gather(out, in, options);
  });
}

Work Group::scatter(const at::Tensor& output, const at::Tensor& input, int root) const {
  check_tensor(*state_, "scatter", output);
  check_root(*state_, "scatter", root);
  if (rank() == root) {
    check_tensor(*state_, "scatter", input);
    check_multiple(*state_, "scatter", input, output);
  }
  if (size() == 1) return copy_unless_same(output, input), Work();
  return post(state_, {.name = "scatter", .bytes = output.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> out{output};
    std::vector<std::vector<at::Tensor>> in;
    if (rank() == root) in.push_back(parts(input, size()));
    c10d::ScatterOptions options;
    options.rootRank = root;
    options.timeout = state_->timeout;
    return backend.scatter(out, in, options);
  });
}

Work Group::all_to_all_single(const at::Tensor& output, const at::Tensor& input, std::vector<int64_t> output_splits,
                              std::vector<int64_t> input_splits) const {
  check_tensor(*state_, "all_to_all_single", output);
  check_tensor(*state_, "all_to_all_single", input);
  const auto check_splits = [&](const std::vector<int64_t>& splits, const at::Tensor& tensor, const char* side) {
    int64_t sum = 0;
    for (auto split : splits) sum += split;
    const int64_t rows = tensor.dim() ? tensor.size(0) : 1;
    if (splits.empty() ? rows % size() != 0 : static_cast<int>(splits.size()) != size() || sum != rows)
      throw base::CommError(base::text_of("all_to_all_single on group '", name(), "': the ", side, " splits ", splits,
                                          " do not cut ", rows, " rows into ", size(), " parts"));
  };
  check_splits(output_splits, output, "output");
  check_splits(input_splits, input, "input");
  if (size() == 1) return copy_unless_same(output, input), Work();
  return post(state_, {.name = "all_to_all", .bytes = input.nbytes()}, [&](c10d::Backend& backend) {
    auto out = output, in = input;
    c10d::AllToAllOptions options;
    options.timeout = state_->timeout;
    return backend.alltoall_base(out, in, output_splits, input_splits, options);
  });
}

Work Group::send(const at::Tensor& tensor, int to, int tag) const {
  check_tensor(*state_, "send", tensor);
  check_root(*state_, "send", to);
  if (to == rank()) throw base::CommError(base::text_of("send on group '", name(), "' to this rank itself, ", to));
  return post(state_, {.name = "send", .bytes = tensor.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    return backend.send(tensors, to, tag);
  });
}

Work Group::recv(const at::Tensor& tensor, int from, int tag) const {
  check_tensor(*state_, "recv", tensor);
  check_root(*state_, "recv", from);
  if (from == rank())
    throw base::CommError(base::text_of("recv on group '", name(), "' from this rank itself, ", from));
  return post(state_, {.name = "recv", .bytes = tensor.nbytes()}, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    return backend.recv(tensors, from, tag);
  });
}

Work Group::barrier(const std::string& label) const {
  if (size() == 1) return {};
  return post(state_, {.name = "barrier", .label = label}, [&](c10d::Backend& backend) {
    if (state_->communicator) return labelled_barrier(state_->communicator, label);
    c10d::BarrierOptions options;
    options.timeout = state_->timeout;
    return backend.barrier(options);
  });
}

at::Tensor Group::allocate(at::IntArrayRef sizes, at::ScalarType dtype) const {
  auto options = at::TensorOptions().dtype(dtype);
  if (!state_->arena) return at::zeros(sizes, options);
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  auto arena = state_->arena;
  auto* memory = arena->allocate(std::max<size_t>(bytes, 1));
  return at::from_blob(
             memory, sizes, [arena](void* p) { arena->release(static_cast<std::byte*>(p)); }, options)
      .zero_();
}

void Group::progress() const {
  if (state_->communicator) state_->communicator->progress();
}

void Group::set_timeout(std::chrono::milliseconds timeout) const {
  state_->timeout = timeout;
}

}  // namespace trireme::comm
