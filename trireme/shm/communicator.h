#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/shm/algorithm.h"
#include "trireme/shm/endpoint.h"
#include "trireme/shm/operation.h"

// Collectives among the ranks of one host on spans of memory.
//
// Posting returns at once with a Ticket; test(), wait(), progress() and the next post of any thread move everything
// that can move. Collectives complete in the order in which they were posted, which must be the same on every rank; one
// that reads what an earlier unfinished one writes waits for it. A buffer belongs to the operation until its ticket is
// done. Buffers in the arena are used where they lie; others are copied through it.
//
// Results are the same bits on every rank and for every run: elements are combined in rank order; 16-bit floats
// accumulate in fp32 and are rounded once. NaN wins in min and max.
namespace trireme::shm {

class RankStatusWriter;

struct GroupInfo {
  std::string name;                                             // in every error
  std::vector<int> global_ranks;                                // [group size], the numbers by which errors name a rank
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // of each wait() that gives none
  uint64_t first_sequence = 1;             // number of the first collective, above 0; equal on all ranks
  AlgorithmTable table = default_table();  // equal on all ranks
  /// Where this rank tells what it waits for, and errors find what the others do. May be null.
  std::shared_ptr<RankStatusWriter> status = {};
};

/// What a post returns. Dropping it is legal; the operation goes on, and its error surfaces at the next one.
struct Ticket {
  uint64_t number = 0;
  bool point_to_point = false;
};

/// One rank's member of a group. Thread-safe. After the first error every call throws that same error, and the peers
/// that wait for this rank learn it. Destruction with unfinished operations is legal: peers that need this rank fail.
///
/// No collective is done on any rank before all ranks have entered it.
/// Every call can throw CommError (mismatch between ranks, deadline, misuse, another rank's failure) and PeerLostError
/// (a process that is needed has ended). Sizes must agree on all ranks, 0 included.
class Communicator {
 public:
  /// `addresses` [group size] are Endpoint::address() of every rank in rank order. Throws PeerLostError for a rank
  /// whose memory is gone, SystemError where it cannot be opened, CommError for contradictory arguments.
  Communicator(Endpoint own, int rank, const std::vector<std::string>& addresses, GroupInfo info);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  const GroupInfo& info() const;
  const std::shared_ptr<Arena>& arena() const;

  /// In place, [count] elements. Reductions take F32, F64, F16, BF16 with every ReduceOp; I32 and I64 with all but
  /// Average (sums and products wrap modulo 2^32 and 2^64, as in PyTorch); U8 likewise, but a sum or product above 255
  /// is a CommError; Bool with Max (or) and Min (and).
  Ticket all_reduce(std::byte* data, size_t count, base::DType dtype, ReduceOp op);

  /// out [size, bytes_in]; `in` may be this rank's part of `out`.
  Ticket all_gather(const std::byte* in, std::byte* out, size_t bytes_in);

  /// in [size, count_out] elements, out [count_out]; `out` may lie anywhere in `in`.
  Ticket reduce_scatter(const std::byte* in, std::byte* out, size_t count_out, base::DType dtype, ReduceOp op);

  /// `root` is a rank of the group, here and below.
  Ticket broadcast(std::byte* data, size_t bytes, int root);

  /// In place at the root; the other ranks' `data` is not changed.
  Ticket reduce(std::byte* data, size_t count, base::DType dtype, ReduceOp op, int root);

  /// out [size, bytes_in], read at the root only (others give null); `in` may be the root's part of `out`.
  Ticket gather(const std::byte* in, std::byte* out, size_t bytes_in, int root);

  /// in [size, bytes_out] at the root only (others give null); `out` may be the root's part of `in`.
  Ticket scatter(const std::byte* in, std::byte* out, size_t bytes_out, int root);

  /// The parts lie one after the other: bytes_in[p] bytes of `in` go to rank p, bytes_out[p] of `out` come from it.
  Ticket all_to_all(const std::byte* in, std::byte* out, std::span<const size_t> bytes_in,
                    std::span<const size_t> bytes_out);

  /// Done when every rank has posted it. Different labels are a mismatch; the first 47 bytes count.
  Ticket barrier(const std::string& label = "");

  /// Matched by (sender, tag), in order among equal tags; done when the receiver has read it. Not ordered with
  /// collectives: wait for one before the other uses its buffer. At most 32 unreceived messages a receiver are visible
  /// to it; further ones wait behind them.
  Ticket send(const std::byte* data, size_t bytes, int to, int tag = 0);

  /// `bytes` must be what the sender gave.
  Ticket recv(std::byte* data, size_t bytes, int from, int tag = 0);

  /// Whether it is done; moves what can move and never waits.
  bool test(Ticket ticket);

  /// Returns when it is done. At the deadline (from now; info().timeout if none is given) throws CommError that names
  /// group, operation, sequence number, label and the ranks that did not enter or did not finish.
  void wait(Ticket ticket, std::optional<std::chrono::nanoseconds> timeout = {});

  /// Moves what can move.
  void progress();

  /// For the collectives from now on; all ranks set it between the same two. Requires that nothing is unfinished.
  void set_table(const AlgorithmTable& table);

  /// Number of the next collective.
  uint64_t next_sequence() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::shm
