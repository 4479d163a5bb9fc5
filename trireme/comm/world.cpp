#include "trireme/comm/world.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/comm/backends.h"
#include "trireme/comm/engine.h"
#include "trireme/comm/group_state.h"
#include "trireme/comm/store.h"
#include "trireme/launch/environment.h"
#include "trireme/launch/launch.h"
#include "trireme/shm/communicator.h"
#include "trireme/shm/tuned_table.h"

namespace trireme::comm {

struct WorldState {
  Place place;
  std::string backend;
  std::shared_ptr<shm::RankStatusWriter> status;  // null where the board could not be made
  c10::intrusive_ptr<c10d::Store> store;          // null for one rank
  std::shared_ptr<shm::Arena> arena;              // only with shm, as what follows
  shm::AlgorithmTable table;
  base::Json algorithms;
  std::chrono::milliseconds timeout{};  // of groups made from now on
  std::map<std::string, int> made;      // how many groups of one member list exist
  std::vector<std::weak_ptr<GroupState>> groups;
};

namespace {

std::string list_text(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

std::shared_ptr<GroupState> make_group(WorldState& world, const std::string& name, const std::vector<int>& ranks) {
  auto group = std::make_shared<GroupState>();
  group->name = name;
  group->ranks = ranks;
  group->timeout = world.timeout;
  group->status = world.status;
  group->rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), world.place.rank) - ranks.begin());
  world.groups.push_back(group);
  if (ranks.size() == 1) {
    group->backend_name = "single";
    return group;
  }
  group->backend_name = world.backend;
  const auto key = list_text(ranks);
  group->store =
      c10::make_intrusive<c10d::PrefixStore>(base::text_of("group/", key, "/", world.made[key]++), world.store);
  const Membership membership{name, ranks, group->rank, group->store, world.timeout, world.status};
  try {
    if (world.backend == "shm") {
      group->communicator = make_communicator(membership, world.arena, world.table);
      group->backend = make_shm_backend(group->communicator);
      // a rank that is done with the group at once must not take its memory away before the others have mapped it
      group->communicator->wait(group->communicator->barrier("making the group"));
      group->arena = world.arena;
    } else {
      group->backend = make_gloo_backend(membership);
    }
  } catch (...) {
    group->explain(base::text_of("making group '", name, "' of ranks ", key), world.timeout);
  }
  return group;
}

// in a group of its own, so that the world's begins at its first collective whether measured or not
void choose_algorithms(WorldState& world, const std::vector<int>& everyone, std::string given) {
  const char* variable = std::getenv("TRIREME_ALGORITHM_TABLE");
  if (given.empty() && variable != nullptr) given = variable;
  world.table = shm::default_table();
  const auto tuned = shm::tuned_table(*make_group(world, "world", everyone)->communicator, given);
  world.table = tuned.table;
  world.algorithms = {{"table", shm::to_json(tuned.table)}, {"origin", tuned.origin}};
  if (world.place.rank == 0) base::log_debug("table of algorithms: ", tuned.origin);
}

/// The launcher's board, if it is of this run and not of another, which started this one.
std::shared_ptr<shm::StatusBoard> board_of_launcher(int ranks) {
  auto board = launch::board_of_launcher();
  return board && board->ranks() == ranks ? board : nullptr;
}

/// One board a host, made by its first rank; null where the system refuses.
std::shared_ptr<shm::StatusBoard> board_of_host(const Place& place, c10d::Store* store) {
  const std::string key = base::text_of("status board/", place.rank - place.local_rank);
  std::shared_ptr<shm::StatusBoard> board;
  try {
    if (place.local_rank == 0) board = shm::StatusBoard::create(place.size);
  } catch (const base::SystemError& error) {
    base::log_debug("no status board: ", error.what());
  }
  if (place.size == 1) return board;
  try {
    if (place.local_rank == 0) {
      store->set(key, board ? board->address() : std::string("none"));
    } else if (const auto address = store->get(key); address.size() > 4) {
      board = shm::StatusBoard::attach({address.begin(), address.end()});
    }
  } catch (const base::Error& error) {
    base::log_debug("no status board: ", error.what());
  }
  return board;
}

}  // namespace

World World::from_environment(const WorldOptions& options) {
  const auto variables = launch::rank_variables([](const char* name) { return std::getenv(name); });
  if (!variables) return from_store(Place{}, nullptr, options);
  const Place place{variables->rank, variables->world_size, variables->local_rank, variables->local_world_size};
  choose_backend(options.backend, place);  // refused before anyone waits for anyone
  auto store = place.size == 1 ? nullptr : meet_at_store(*variables, options.first_step_timeout);
  return make(place, std::move(store), options, board_of_launcher(place.size));
}

World World::from_store(const Place& place, c10::intrusive_ptr<c10d::Store> store, const WorldOptions& options) {
  return make(place, std::move(store), options, nullptr);
}

World World::make(const Place& place, c10::intrusive_ptr<c10d::Store> store, const WorldOptions& options,
                  std::shared_ptr<shm::StatusBoard> board) {
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size)
    throw base::UsageError(base::text_of("rank ", place.rank, " is not in a world of ", place.size, " ranks"));
  install_engine();
  auto state = std::make_shared<WorldState>();
  state->place = place;
  state->timeout = options.first_step_timeout;
  state->backend = choose_backend(options.backend, place);
  if (place.size == 1) {
    state->backend = "single";
  } else {
    if (!store) throw base::UsageError(base::text_of(place.size, " ranks need a store to meet in"));
    state->store = std::move(store);
    state->store->setTimeout(options.first_step_timeout);
    claim_rank(*state->store, place.rank);
  }
  if (!board) board = board_of_host(place, state->store.get());
  if (board) state->status = std::make_shared<shm::RankStatusWriter>(std::move(board), place.rank);
  std::vector<int> everyone(place.size);
  for (int r = 0; r < place.size; ++r) everyone[r] = r;
  if (state->backend == "shm") {
    state->arena = shm::Arena::create();
    choose_algorithms(*state, everyone, options.algorithm_table);
  }
  World world(state);
  world.all_ = std::shared_ptr<GroupState>(make_group(*state, "world", everyone));
  return world;
}

int World::rank() const {
  return state_->place.rank;
}
int World::size() const {
  return state_->place.size;
}
int World::local_rank() const {
  return state_->place.local_rank;
}
int World::local_size() const {
  return state_->place.local_size;
}
const std::string& World::backend() const {
  return state_->backend;
}
void World::set_step(int64_t step) const {
  if (state_->status) state_->status->set_step(step);
}
shm::StatusPhase World::phase(std::string_view name, bool may_be_long) const {
  return {state_->status, name, may_be_long};
}
const base::Json& World::algorithms() const {
  return state_->algorithms;
}
Group World::all() const {
  return Group(all_);
}

Group World::group(const std::vector<int>& ranks) const {
  for (int rank : ranks)
    if (rank < 0 || rank >= size())
      throw base::UsageError(
          base::text_of("group of ranks ", list_text(ranks), ": rank ", rank, " is not in 0..", size() - 1));
  if (std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size())
    throw base::UsageError(base::text_of("group of ranks ", list_text(ranks), ": a rank stands in it twice"));
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    throw base::UsageError(
        base::text_of("group of ranks ", list_text(ranks), " is made on rank ", rank(), ", which is not in it"));
  return Group(make_group(*state_, "ranks " + list_text(ranks), ranks));
}

void World::set_timeout(std::chrono::milliseconds timeout) const {
  state_->timeout = timeout;
  for (auto& weak : state_->groups)
    if (auto group = weak.lock()) group->timeout = timeout;
}

}  // namespace trireme::comm
