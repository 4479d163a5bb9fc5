#include "trireme/launch/launch.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/launch/cores.h"
#include "trireme/launch/master_port.h"
#include "trireme/launch/process_tree.h"
#include "trireme/launch/start_rank.h"
#include "trireme/launch/threads.h"
#include "trireme/launch/watcher.h"
#include "trireme/shm/status_board.h"

namespace trireme::launch {
namespace {

// Descriptors 0 to 2 may be closed; the next pipe would then become somebody's stdin.
void fill_standard_descriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= 2) fd = open("/dev/null", O_RDWR);
  if (fd > 2) close(fd);
}

/// While it lives, orphans of our descendants become our children.
class Subreaper {
 public:
  Subreaper() {
    prctl(PR_GET_CHILD_SUBREAPER, &before_);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, static_cast<unsigned long>(before_)); }

 private:
  int before_ = 0;
};

/// Null where the system has no memory for it: the ranks then make their own.
std::shared_ptr<shm::StatusBoard> make_board(int ranks) {
  try {
    auto board = shm::StatusBoard::create(ranks);
    board->set_watched();
    return board;
  } catch (const base::SystemError&) {
    return nullptr;
  }
}

Variables variables_of_rank(const LaunchSpec& spec, int rank, int port, int threads, const shm::StatusBoard* board) {
  const std::string number = std::to_string(rank);
  const std::string ranks = std::to_string(spec.ranks);
  Variables variables = {
      {"RANK", number},
      {"WORLD_SIZE", ranks},
      {"LOCAL_RANK", number},
      {"LOCAL_WORLD_SIZE", ranks},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", number},
      {"ROLE_WORLD_SIZE", ranks},
      {"NODE_RANK", "0"},
      {"MASTER_ADDR", spec.master_addr},
      {"MASTER_PORT", std::to_string(port)},
      {"TORCHELASTIC_RUN_ID", base::text_of("trireme-", getpid(), "-", port)},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},  // rank 0 is the one that listens on MASTER_PORT
      {"OMP_NUM_THREADS", std::to_string(threads)},
      {launcher_variable, std::to_string(getpid())},
      {status_variable, board ? board->address() : ""},
  };
  if (const int columns = terminal_columns()) variables.emplace_back(terminal_variable, std::to_string(columns));
  return variables;
}

void require_sound(const LaunchSpec& spec) {
  constexpr int most_ranks = 1024;  // a mistyped number must not fill the process table
  TRIREME_CHECK(!spec.command.empty(), "no program");
  if (spec.ranks < 1 || spec.ranks > most_ranks) {
    throw base::UsageError(
        base::text_of("cannot start ", spec.ranks, " ranks on one host; the number is 1 to ", most_ranks));
  }
  if (spec.threads < 0) throw base::UsageError(base::text_of("cannot give a rank ", spec.threads, " threads"));
}

}  // namespace

std::shared_ptr<shm::StatusBoard> board_of_launcher() {
  const char* address = std::getenv(status_variable);
  if (!address || !*address) return nullptr;
  try {
    return shm::StatusBoard::attach(address);
  } catch (const base::Error&) {
    return nullptr;
  }
}

int terminal_columns() {
  if (const char* columns = std::getenv(terminal_variable)) return std::atoi(columns);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    winsize size{};
    if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0) return size.ws_col > 0 ? size.ws_col : 80;
  }
  return 0;
}

int launch(const LaunchSpec& spec) {
  require_sound(spec);
  fill_standard_descriptors();

  const std::vector<int> cpus = available_cpus();
  ThreadRequest request{.cores = usable_cores(static_cast<int>(cpus.size()), cgroup_cpu_limit()),
                        .ranks = spec.ranks,
                        .threads = spec.threads,
                        .omp_num_threads = {}};
  if (const char* value = std::getenv("OMP_NUM_THREADS")) request.omp_num_threads = value;
  const ThreadChoice choice = rank_threads(request);
  const std::vector<std::vector<int>> shares =
      spec.bind ? share_cpus(cpus, spec.ranks, choice.threads) : std::vector<std::vector<int>>{};

  if (spec.master_port != 0) require_free_port(spec.master_port);
  const int port = spec.master_port != 0 ? spec.master_port : free_port();
  if (!spec.log_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(spec.log_dir, error);
    if (error) throw base::SystemError(base::text_of("cannot make the folder ", spec.log_dir, ": ", error.message()));
  }

  OutputQueue own_output(STDOUT_FILENO);
  OutputQueue own_errors(STDERR_FILENO);
  // lines of both would cut into each other if both were written to one file in parts
  OutputQueue& errors = same_file(STDOUT_FILENO, STDERR_FILENO) ? own_output : own_errors;
  if (!choice.warning.empty()) errors.end() += "warning: " + choice.warning + "\n";

  // children that the calling program had before are none of ours
  const std::vector<pid_t> foreign = descendants(getpid(), {});
  SignalPipe signals;
  Subreaper subreaper;
  SaidLines said;
  const auto board = make_board(spec.ranks);
  std::vector<RunningRank> ranks;
  Watcher watcher(ranks, signals, own_output, errors, board.get(), foreign, spec.grace);
  try {
    for (int rank = 0; rank < spec.ranks; ++rank) {
      RankStart start;
      start.command = spec.command;
      start.variables = variables_of_rank(spec, rank, port, choice.threads, board.get());
      if (!shares.empty()) start.cpus = shares[static_cast<size_t>(rank)];
      start.give_input = rank == 0;
      RunningRank running;
      if (spec.ranks > 1 || !spec.log_dir.empty()) {
        const bool prefixed = spec.prefix_output && spec.ranks > 1;
        running.output = std::make_unique<RankOutput>(
            prefixed ? base::text_of("[rank ", rank, "] ") : "",
            spec.log_dir.empty() ? "" : base::text_of(spec.log_dir, "/rank_", rank, ".log"), own_output, errors, said);
        start.output = running.output->output_for_rank();
        start.errors = running.output->errors_for_rank();
      }
      running.pid = start_rank(start, signals);
      if (board) board->set_started(rank, running.pid);
      if (running.output) running.output->close_in_launcher();
      ranks.push_back(std::move(running));
    }
  } catch (...) {
    watcher.end_all();
    throw;
  }
  return watcher.run();
}

}  // namespace trireme::launch
