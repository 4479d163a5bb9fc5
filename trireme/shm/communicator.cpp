#include "trireme/shm/communicator.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/shm/communicator_state.h"
#include "trireme/shm/process_memory.h"
#include "trireme/shm/reduce.h"

namespace trireme::shm {
namespace {

Member attach(const std::string& address, int group_size) {
  const size_t colon = address.rfind(':');
  uint64_t offset = 0;
  if (colon == std::string::npos ||
      std::from_chars(address.data() + colon + 1, address.data() + address.size(), offset).ptr !=
          address.data() + address.size()) {
    throw base::CommError("not the address of an endpoint: \"" + address + "\"");
  }
  Member member;
  member.arena = PeerArena::attach(address.substr(0, colon));
  const size_t bytes = ControlBlock::bytes(static_cast<size_t>(group_size));
  const bool inside =
      offset % kLine == 0 && bytes <= member.arena->capacity() && offset <= member.arena->capacity() - bytes;
  member.block = inside ? reinterpret_cast<ControlBlock*>(member.arena->base() + offset) : nullptr;
  if (!inside || member.block->magic != kControlMagic) throw base::CommError("no endpoint at \"" + address + "\"");
  if (member.block->group_size != static_cast<uint32_t>(group_size)) {
    throw base::CommError(
        base::text_of("it made its endpoint for a group of ", member.block->group_size, ", not ", group_size));
  }
  return member;
}

}  // namespace

// ---- construction --------------------------------------------------------------------------------------------------

Communicator::Communicator(Endpoint own, int rank, const std::vector<std::string>& addresses, GroupInfo info) {
  const int size = own.group_size();
  const auto fits = [&](size_t count) { return count == static_cast<size_t>(size); };
  if (rank < 0 || rank >= size || !fits(addresses.size()) || !fits(info.global_ranks.size()) ||
      info.first_sequence == 0) {
    throw base::CommError(base::text_of("group \"", info.name, "\" contradicts itself: rank ", rank, ", size ", size,
                                        ", ", addresses.size(), " addresses, ", info.global_ranks.size(),
                                        " global ranks, first sequence number ", info.first_sequence));
  }
  state_ = std::make_unique<State>(std::move(own), std::move(info));
  Group& group = state_->group;
  group.name = state_->info.name;
  group.global_ranks = state_->info.global_ranks;
  group.rank = rank;
  group.size = size;
  group.arena = state_->endpoint.arena();
  for (int peer = 0; peer < size; ++peer) {
    const auto where = [&](const std::exception& error) {
      return group.name_of_rank(peer) + " of group \"" + group.name + "\" cannot be reached: " + error.what();
    };
    try {
      group.members.push_back(attach(addresses[peer], size));
    } catch (const base::PeerLostError& error) {
      throw base::PeerLostError(where(error));
    } catch (const base::SystemError& error) {
      throw base::SystemError(where(error));
    } catch (const base::Error& error) {
      throw base::CommError(where(error));
    }
    group.members.back().checked = state_->info.first_sequence;
  }
  group.own = reinterpret_cast<ControlBlock*>(state_->endpoint.block());
  if (group.members[rank].block != group.own) {
    throw base::CommError(
        base::text_of("rank ", rank, " of group \"", group.name, "\" was given another endpoint's address as its own"));
  }
  group.own->checked.store(state_->info.first_sequence);
  group.own->progress.store(state_->info.first_sequence << kStepBits);
  group.table = state_->info.table;
  group.fenced = !std::all_of(group.members.begin(), group.members.end(),
                              [](const Member& member) { return member.block->joins_fences; });
  group.own->reads_private.store(std::all_of(group.members.begin(), group.members.end(), [&](const Member& member) {
    return member.block == group.own || can_read_process(member.arena->pid(), member.block->address, kControlMagic);
  }));
}

Communicator::~Communicator() {
  State& state = *state_;
  const Group& group = state.group;
  auto open = Condition::Open;
  group.own->condition.compare_exchange_strong(open, Condition::Left);
  group.ring_all();
  state.endpoint.keep(state.collectives.blocks());
  state.endpoint.keep(state.messages.blocks());
  for (int peer = 0; peer < group.size; ++peer) {
    if (peer != group.rank) group.members[peer].block->users.fetch_sub(1);
  }
}

int Communicator::rank() const {
  return state_->group.rank;
}
int Communicator::size() const {
  return state_->group.size;
}
const GroupInfo& Communicator::info() const {
  return state_->info;
}
const std::shared_ptr<Arena>& Communicator::arena() const {
  return state_->group.arena;
}

void Communicator::set_table(const AlgorithmTable& table) {
  std::lock_guard lock(state_->mutex);
  TRIREME_CHECK(state_->collectives.empty(), "unfinished collectives");
  state_->group.table = table;
}

uint64_t Communicator::next_sequence() const {
  std::lock_guard lock(state_->mutex);
  return state_->collectives.next_sequence();
}

// ---- posting -------------------------------------------------------------------------------------------------------
namespace {

bool overlaps(const std::byte* a, uint64_t a_bytes, const std::byte* b, uint64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

uint64_t times(uint64_t count, uint64_t size) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    throw base::CommError(base::text_of("a buffer of ", count, " x ", size, " bytes does not fit into 64 bits"));
  }
  return bytes;
}

void check_root(int root, int size) {
  if (root < 0 || root >= size) {
    throw base::CommError(
        base::text_of("no rank ", root, " in a group of ", size, "; the root is a rank of the group"));
  }
}

}  // namespace

Ticket Communicator::all_reduce(std::byte* data, size_t count, base::DType dtype, ReduceOp op) {
  check_reducible(dtype, op);
  Collective collective;
  collective.call = {Operation::AllReduce, dtype, op, -1, count, {}};
  collective.in = collective.out = data;
  collective.shared_bytes = collective.out_bytes = times(count, base::size_of(dtype));
  return state_->post(std::move(collective));
}

Ticket Communicator::all_gather(const std::byte* in, std::byte* out, size_t bytes_in) {
  Collective collective;
  collective.call = {Operation::AllGather, base::DType::U8, ReduceOp::Sum, -1, bytes_in, {}};
  collective.in = in;
  collective.out = out;
  collective.shared_bytes = bytes_in;
  collective.out_bytes = times(bytes_in, static_cast<uint64_t>(size()));
  const std::byte* own_part = out + bytes_in * static_cast<size_t>(rank());
  collective.copy_input = in != own_part && overlaps(in, bytes_in, out, collective.out_bytes);
  return state_->post(std::move(collective));
}

Ticket Communicator::reduce_scatter(const std::byte* in, std::byte* out, size_t count_out, base::DType dtype,
                                    ReduceOp op) {
  check_reducible(dtype, op);
  Collective collective;
  collective.call = {Operation::ReduceScatter, dtype, op, -1, count_out, {}};
  collective.in = in;
  collective.out = out;
  collective.out_bytes = times(count_out, base::size_of(dtype));
  collective.shared_bytes = times(collective.out_bytes, static_cast<uint64_t>(size()));
  // nobody else reads this rank's own part, so that the result may lie there, but nowhere else in the input
  const std::byte* own_part = in + collective.out_bytes * static_cast<size_t>(rank());
  collective.copy_input = out != own_part && overlaps(in, collective.shared_bytes, out, collective.out_bytes);
  return state_->post(std::move(collective));
}

Ticket Communicator::broadcast(std::byte* data, size_t bytes, int root) {
  check_root(root, size());
  Collective collective;
  collective.call = {Operation::Broadcast, base::DType::U8, ReduceOp::Sum, root, bytes, {}};
  if (rank() == root) {
    collective.in = data;
    collective.shared_bytes = bytes;
  } else {
    collective.out = data;
    collective.out_bytes = bytes;
  }
  return state_->post(std::move(collective));
}

Ticket Communicator::reduce(std::byte* data, size_t count, base::DType dtype, ReduceOp op, int root) {
  check_reducible(dtype, op);
  check_root(root, size());
  Collective collective;
  collective.call = {Operation::Reduce, dtype, op, root, count, {}};
  collective.in = data;
  collective.shared_bytes = times(count, base::size_of(dtype));
  if (rank() == root) {
    collective.out = data;
    collective.out_bytes = collective.shared_bytes;
    collective.peers_write = collective.in_arena = true;
  }
  return state_->post(std::move(collective));
}

Ticket Communicator::gather(const std::byte* in, std::byte* out, size_t bytes_in, int root) {
  check_root(root, size());
  Collective collective;
  collective.call = {Operation::Gather, base::DType::U8, ReduceOp::Sum, root, bytes_in, {}};
  collective.in = in;
  if (rank() == root) {
    collective.out = out;
    collective.out_bytes = times(bytes_in, static_cast<uint64_t>(size()));
  } else {
    collective.shared_bytes = bytes_in;
  }
  return state_->post(std::move(collective));
}

Ticket Communicator::scatter(const std::byte* in, std::byte* out, size_t bytes_out, int root) {
  check_root(root, size());
  Collective collective;
  collective.call = {Operation::Scatter, base::DType::U8, ReduceOp::Sum, root, bytes_out, {}};
  collective.out = out;
  collective.out_bytes = bytes_out;
  if (rank() == root) {
    collective.in = in;
    collective.shared_bytes = times(bytes_out, static_cast<uint64_t>(size()));
    const std::byte* own_part = in + bytes_out * static_cast<size_t>(rank());
    collective.copy_input = out != own_part && overlaps(in, collective.shared_bytes, out, bytes_out);
  }
  return state_->post(std::move(collective));
}

Ticket Communicator::all_to_all(const std::byte* in, std::byte* out, std::span<const size_t> bytes_in,
                                std::span<const size_t> bytes_out) {
  const auto ranks = static_cast<size_t>(size());
  if (bytes_in.size() != ranks || bytes_out.size() != ranks) {
    throw base::CommError(base::text_of("all_to_all needs one part a rank: ", bytes_in.size(), " in, ",
                                        bytes_out.size(), " out, ", ranks, " ranks"));
  }
  Collective collective;
  collective.call = {Operation::AllToAll, base::DType::U8, ReduceOp::Sum, -1, 0, {}};
  collective.in = in;
  collective.out = out;
  collective.to_peer.assign(bytes_in.begin(), bytes_in.end());
  collective.from_peer.assign(bytes_out.begin(), bytes_out.end());
  collective.shared_bytes = std::accumulate(bytes_in.begin(), bytes_in.end(), uint64_t{0});
  collective.out_bytes = std::accumulate(bytes_out.begin(), bytes_out.end(), uint64_t{0});
  collective.copy_input = overlaps(in, collective.shared_bytes, out, collective.out_bytes);
  if (bytes_in[rank()] != bytes_out[rank()]) {
    throw base::CommError(base::text_of("all_to_all's part for this rank itself differs: ", bytes_in[rank()],
                                        " bytes in, ", bytes_out[rank()], " out"));
  }
  return state_->post(std::move(collective));
}

Ticket Communicator::barrier(const std::string& label) {
  Collective collective;
  collective.call = {Operation::Barrier, base::DType::U8, ReduceOp::Sum, -1, 0, label.substr(0, kLabelBytes - 1)};
  return state_->post(std::move(collective));
}

Ticket Communicator::send(const std::byte* data, size_t bytes, int to, int tag) {
  check_root(to, size());
  if (to == rank()) throw base::CommError(base::text_of("rank ", to, " sends to itself"));
  std::lock_guard lock(state_->mutex);
  state_->throw_if_failed();
  const Ticket ticket{state_->messages.send(data, bytes, to, tag), true};
  state_->advance();
  return ticket;
}

Ticket Communicator::recv(std::byte* data, size_t bytes, int from, int tag) {
  check_root(from, size());
  if (from == rank()) throw base::CommError(base::text_of("rank ", from, " receives from itself"));
  std::lock_guard lock(state_->mutex);
  state_->throw_if_failed();
  const Ticket ticket{state_->messages.receive(data, bytes, from, tag), true};
  state_->advance();
  return ticket;
}

// ---- waiting -------------------------------------------------------------------------------------------------------

bool Communicator::test(Ticket ticket) {
  std::lock_guard lock(state_->mutex);
  state_->advance();
  if (state_->done(ticket)) return true;
  state_->look_at_peers(State::Clock::now());
  return state_->done(ticket);
}

void Communicator::progress() {
  std::lock_guard lock(state_->mutex);
  state_->advance();
  state_->look_at_peers(State::Clock::now());
}

void Communicator::wait(Ticket ticket, std::optional<std::chrono::nanoseconds> timeout) {
  state_->wait(ticket, timeout.value_or(state_->info.timeout));
}

}  // namespace trireme::shm
