#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/backends.h"
#include "trireme/comm/dtype.h"
#include "trireme/shm/communicator.h"

namespace trireme::comm {
namespace {

base::DType reducible_dtype(const at::Tensor& tensor) {
  if (const auto dtype = dtype_of(tensor.scalar_type())) return *dtype;
  throw base::CommError(base::text_of("no reductions of ", tensor.scalar_type(), " elements; convert them first"));
}

shm::ReduceOp reduce_op(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return shm::ReduceOp::Sum;
    case c10d::ReduceOp::AVG:
      return shm::ReduceOp::Average;
    case c10d::ReduceOp::MIN:
      return shm::ReduceOp::Min;
    case c10d::ReduceOp::MAX:
      return shm::ReduceOp::Max;
    case c10d::ReduceOp::PRODUCT:
      return shm::ReduceOp::Product;
    default:
      throw base::CommError("backend shm reduces with sum, average, min, max and product only");
  }
}

std::byte* data(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

class ShmWork final : public c10d::Work {
 public:
  using Communicator = std::shared_ptr<shm::Communicator>;
  using Tensors = c10::SmallVector<at::Tensor, 2>;  // small operations are counted in nanoseconds
  /// The first `results` of `tensors` are the operation's result; it keeps the others too.
  ShmWork(const Communicator& communicator, shm::Ticket ticket, Tensors&& tensors, size_t results)
      : communicator_(communicator), ticket_(ticket), tensors_(std::move(tensors)), results_(results) {}

  bool isCompleted() override {
    if (!done_) try {
        done_ = communicator_->test(ticket_);
      } catch (...) {
        error_ = std::current_exception();
        done_ = true;
      }
    return done_;
  }
  bool isSuccess() const override { return done_ && !error_; }
  std::exception_ptr exception() const override { return error_; }
  bool wait(std::chrono::milliseconds timeout) override {
    if (error_) std::rethrow_exception(error_);
    if (!done_)
      communicator_->wait(ticket_,
                          timeout.count() > 0 ? std::optional<std::chrono::nanoseconds>(timeout) : std::nullopt);
    done_ = true;
    return true;
  }
  std::vector<at::Tensor> result() override { return {tensors_.begin(), tensors_.begin() + results_}; }
  // c10d::Reducer asks for one; the operation moves on its callers' threads only, so it is finished here
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(std::chrono::milliseconds(0));
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(result()));
    return future;
  }

 private:
  Communicator communicator_;
  shm::Ticket ticket_;
  Tensors tensors_;
  size_t results_;
  bool done_ = false;
  std::exception_ptr error_;
};

class ShmBackend final : public c10d::Backend {
 public:
  explicit ShmBackend(std::shared_ptr<shm::Communicator> communicator)
      : Backend(communicator->rank(), communicator->size()), communicator_(std::move(communicator)) {}

  using Tensors = std::vector<at::Tensor>;
  using Handle = c10::intrusive_ptr<c10d::Work>;

  const std::string getBackendName() const override { return "shm"; }

  Handle allreduce(Tensors& t, const c10d::AllreduceOptions& options) override {
    return work(communicator_->all_reduce(data(t[0]), count(t[0]), reducible_dtype(t[0]), reduce_op(options.reduceOp)),
                {t[0]});
  }
  Handle broadcast(Tensors& t, const c10d::BroadcastOptions& options) override {
    return work(communicator_->broadcast(data(t[0]), t[0].nbytes(), static_cast<int>(options.rootRank)), {t[0]});
  }
  Handle reduce(Tensors& t, const c10d::ReduceOptions& options) override {
    return work(communicator_->reduce(data(t[0]), count(t[0]), reducible_dtype(t[0]), reduce_op(options.reduceOp),
                                      static_cast<int>(options.rootRank)),
                {t[0]});
  }
  Handle _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) override {
    return work(communicator_->all_gather(data(input), data(output), input.nbytes()), {output, input});
  }
  Handle allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    auto flat = at::empty({getSize(), inputs[0].numel()}, inputs[0].options());
    _allgather_base(flat, inputs[0], options)->wait(options.timeout);
    for (int r = 0; r < getSize(); ++r) outputs[0][r].view({-1}).copy_(flat[r]);
    return work(communicator_->barrier(), rows(outputs[0]), outputs[0].size());
  }
  Handle _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                              const c10d::ReduceScatterOptions& options) override {
    return work(communicator_->reduce_scatter(data(input), data(output), count(output), reducible_dtype(output),
                                              reduce_op(options.reduceOp)),
                {output, input});
  }
  Handle gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    // c10d gives a list of tensors; Group's are the rows of one
    auto* out = outputs.empty() ? nullptr : data(outputs[0][0]);
    auto kept = outputs.empty() ? Tensors{} : outputs[0];
    refuse_scattered(kept);
    const size_t results = kept.size();
    kept.push_back(inputs[0]);
    return work(communicator_->gather(data(inputs[0]), out, inputs[0].nbytes(), static_cast<int>(options.rootRank)),
                rows(kept), results);
  }
  Handle scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    auto* in = inputs.empty() ? nullptr : data(inputs[0][0]);
    auto kept = inputs.empty() ? Tensors{} : inputs[0];
    refuse_scattered(kept);
    kept.insert(kept.begin(), outputs[0]);
    return work(communicator_->scatter(in, data(outputs[0]), outputs[0].nbytes(), static_cast<int>(options.rootRank)),
                rows(kept));
  }
  Handle alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                       std::vector<int64_t>& input_splits, const c10d::AllToAllOptions&) override {
    const auto in = split_bytes(input, input_splits), out = split_bytes(output, output_splits);
    return work(communicator_->all_to_all(data(input), data(output), in, out), {output, input});
  }
  Handle send(Tensors& t, int to, int tag) override {
    return work(communicator_->send(data(t[0]), t[0].nbytes(), to, tag), {t[0]});
  }
  Handle recv(Tensors& t, int from, int tag) override {
    return work(communicator_->recv(data(t[0]), t[0].nbytes(), from, tag), {t[0]});
  }
  Handle barrier(const c10d::BarrierOptions&) override { return work(communicator_->barrier(), {}, 0); }

 private:
  static size_t count(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

  static void refuse_scattered(const Tensors& rows) {
    for (size_t r = 1; r < rows.size(); ++r)
      if (data(rows[r]) != data(rows[r - 1]) + rows[r - 1].nbytes())
        throw base::CommError("backend shm gathers into and scatters from the rows of one tensor only");
  }

  std::vector<size_t> split_bytes(const at::Tensor& tensor, const std::vector<int64_t>& splits) const {
    const auto rows = static_cast<size_t>(tensor.dim() ? tensor.size(0) : 1);
    const size_t row = rows ? tensor.nbytes() / rows : 0;
    std::vector<size_t> bytes(getSize(), rows / getSize() * row);
    for (size_t r = 0; r < splits.size(); ++r) bytes[r] = static_cast<size_t>(splits[r]) * row;
    return bytes;
  }

  static ShmWork::Tensors rows(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

  Handle work(shm::Ticket ticket, ShmWork::Tensors tensors, size_t results = 1) {
    return c10::make_intrusive<ShmWork>(communicator_, ticket, std::move(tensors), results);
  }

  std::shared_ptr<shm::Communicator> communicator_;
};

std::vector<std::string> exchange(c10d::Store& store, const std::string& key, int rank, int size,
                                  const std::string& text) {
  store.set(base::text_of(key, "/", rank), text);
  std::vector<std::string> texts;
  for (int r = 0; r < size; ++r) {
    const auto bytes = store.get(base::text_of(key, "/", r));
    texts.emplace_back(bytes.begin(), bytes.end());
  }
  return texts;
}

}  // namespace

std::shared_ptr<shm::Communicator> make_communicator(const Membership& m, const std::shared_ptr<shm::Arena>& arena,
                                                     const shm::AlgorithmTable& table) {
  const int size = static_cast<int>(m.ranks.size());
  auto endpoint = shm::make_endpoint(arena, size);
  const auto addresses = exchange(*m.store, "endpoint", m.rank, size, endpoint.address());
  return std::make_shared<shm::Communicator>(
      std::move(endpoint), m.rank, addresses,
      shm::GroupInfo{
          .name = m.name, .global_ranks = m.ranks, .timeout = m.timeout, .table = table, .status = m.status});
}

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const std::shared_ptr<shm::Communicator>& communicator) {
  return c10::make_intrusive<ShmBackend>(communicator);
}

c10::intrusive_ptr<c10d::Work> labelled_barrier(const std::shared_ptr<shm::Communicator>& communicator,
                                                const std::string& label) {
  return c10::make_intrusive<ShmWork>(communicator, communicator->barrier(label), ShmWork::Tensors{}, 0);
}

}  // namespace trireme::comm
