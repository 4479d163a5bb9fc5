#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Backend;
}  // namespace c10d

namespace trireme::comm {

/// What a reduction computes element by element. 16-bit elements are accumulated in fp32 and rounded once; sums are
/// taken in rank order, so that every rank gets the same bits. Average is refused for integers.
enum class ReduceOp { Sum, Average, Min, Max, Product };

/// A posted operation. It keeps its tensors alive. Dropping an unfinished Work is legal: an error of it surfaces at the
/// group's next operation. Not thread-safe.
class [[nodiscard]] Work {
 public:
  Work();  // an operation that is already done
  explicit Work(std::unique_ptr<struct PostedWork> posted);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  /// Returns when the result is in the tensors. Throws base::CommError that names group, operation, sequence number and
  /// the ranks that did not arrive when `timeout` (default: the group's) has passed, base::PeerLostError when a peer
  /// died.
  void wait();
  void wait(std::chrono::milliseconds timeout);

  /// Whether wait() would return at once. Also lets posted operations advance.
  bool done();

 private:
  std::unique_ptr<struct PostedWork> posted_;
};

/// Some ranks of the world, in a fixed order, and the operations among them, with PyTorch's names. A copyable handle;
/// made by World. All ranks of the group call the same operations in the same order, from one thread at a time.
/// Tensors must be dense and contiguous, on the device that the backend serves; anything else is refused. A group of
/// one returns at once, so no caller needs to write `if (size > 1)`.
class Group {
 public:
  int rank() const;  // in this group
  int size() const;
  const std::string& name() const;        // stands in every error
  const std::vector<int>& ranks() const;  // the world ranks, in group order
  const std::string& backend() const;     // "shm", "gloo", "single"

  /// In place. Shapes and dtypes are equal on all ranks.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::Sum) const;
  /// output [size * n] = the inputs [n] in rank order. `input` may be this rank's slice of `output`.
  Work all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input) const;
  /// output [n] = this rank's slice of the reduced input [size * n]. `output` may be this rank's slice of `input`.
  Work reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input, ReduceOp op = ReduceOp::Sum) const;
  Work broadcast(const at::Tensor& tensor, int root) const;
  /// The result is defined on `root` only.
  Work reduce(const at::Tensor& tensor, int root, ReduceOp op = ReduceOp::Sum) const;
  /// output [size * n] on `root`, undefined elsewhere.
  Work gather(const at::Tensor& output, const at::Tensor& input, int root) const;
  /// input [size * n] on `root`, undefined elsewhere; output [n].
  Work scatter(const at::Tensor& output, const at::Tensor& input, int root) const;
  /// Along dimension 0. Empty splits: equal parts.
  Work all_to_all_single(const at::Tensor& output, const at::Tensor& input, std::vector<int64_t> output_splits = {},
                         std::vector<int64_t> input_splits = {}) const;
  Work send(const at::Tensor& tensor, int to, int tag = 0) const;
  Work recv(const at::Tensor& tensor, int from, int tag = 0) const;
  /// `label` stands in the deadline's error.
  Work barrier(const std::string& label = "") const;

  /// Zero-filled memory that this group moves without a copy (the shm arena), ordinary memory elsewhere.
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType dtype) const;

  /// Lets posted operations advance without blocking; backward hooks call it.
  void progress() const;

  /// The deadline of every wait from now on (default 10 min).
  void set_timeout(std::chrono::milliseconds timeout) const;

  /// The backend itself, for c10d::Reducer and other users of libtorch's interface; null for a group of one.
  c10::intrusive_ptr<c10d::Backend> c10d_backend() const;

 private:
  friend class World;
  explicit Group(std::shared_ptr<struct GroupState> state) : state_(std::move(state)) {}
  std::shared_ptr<struct GroupState> state_;
};

}  // namespace trireme::comm
