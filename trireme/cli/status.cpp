#include "trireme/cli/status.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/names.h"
#include "trireme/base/process.h"
#include "trireme/base/units.h"
#include "trireme/shm/status_board.h"

namespace trireme::cli {
namespace fs = std::filesystem;
namespace {

using base::text_of;

// The process that holds the lock of a run folder: rank 0. 0: none.
int process_of_folder(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return 0;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF"
    std::istringstream words(line);
    std::string number, kind, advice, access, where;
    int process = 0;
    if (!(words >> number >> kind >> advice >> access >> process >> where) || kind != "FLOCK" || process <= 0) continue;
    if (where.substr(where.rfind(':') + 1) != std::to_string(status.st_ino)) continue;
    for (const auto& file : base::open_files(process)) {
      std::error_code ignored;
      if (fs::equivalent(file, folder, ignored)) return process;
    }
  }
  return 0;
}

std::shared_ptr<shm::StatusBoard> find_board(const std::string& run) {
  int process = 0;
  const bool number = !run.empty() && std::all_of(run.begin(), run.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (fs::is_directory(run)) {
    process = process_of_folder(run);
  } else if (number && run.size() < 10) {
    process = std::atoi(run.c_str());
  } else {
    throw base::UsageError(text_of(base::quoted(run), " is neither a run folder nor a process; give one of them"));
  }
  auto board = process > 0 ? shm::StatusBoard::of_process(process) : nullptr;
  if (!board && !fs::is_directory(run)) {
    throw base::UsageError(text_of("process ", run,
                                   " runs no ranks of Trireme, or is another user's; give the run folder"
                                   ", or the process of the launcher or of rank 0"));
  }
  return board;
}

// ---- a run that has ended ------------------------------------------------------------------------------------------

int64_t last_step(const std::string& folder) {
  int64_t step = 0;
  std::ifstream lines(folder + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto json = base::Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer())
      step = json["step"].get<int64_t>();
  }
  return step;
}

void print_ended(const std::string& folder, bool json) {
  if (!fs::exists(folder + "/config.json")) {
    throw base::UsageError(text_of(base::quoted(folder), " holds no run; name the folder that train's --out named"));
  }
  const bool finished = fs::exists(folder + "/summary.json");
  const int64_t step = last_step(folder);
  if (json) {
    std::cout << base::Json{{"running", false}, {"finished", finished}, {"step", step}}.dump(2) << std::endl;
  } else {
    std::cout << folder << ": not running on this host, " << (finished ? "finished" : "ended") << " after step " << step
              << (finished ? "" : "; go on with --resume") << std::endl;
  }
}

// ---- a run now -----------------------------------------------------------------------------------------------------

std::string_view condition_name(shm::ProcessCondition condition) {
  switch (condition) {
    case shm::ProcessCondition::NotSeen:
      return "not seen";
    case shm::ProcessCondition::Alive:
      return "alive";
    case shm::ProcessCondition::Stopped:
      return "stopped";
    case shm::ProcessCondition::Ended:
      return "ended";
  }
  return "";
}

base::Json to_json(const shm::RankStatus& rank) {
  const shm::Activity& now = rank.activity;
  base::Json json{{"rank", rank.rank},
                  {"process", rank.process},
                  {"condition", condition_name(rank.condition)},
                  {"text", shm::rank_text(rank)},
                  {"step", now.step},
                  {"phase", now.phase},
                  {"phase_seconds", now.phase_seconds},
                  {"barrier", now.barrier},
                  {"failure", rank.failure},
                  {"waits_for", nullptr}};
  if (!now.operation.empty()) {
    json["waits_for"] = {{"operation", now.operation},
                         {"group", now.group},
                         {"sequence", now.sequence},
                         {"bytes", now.bytes},
                         {"seconds", now.wait_seconds}};
  }
  return json;
}

void print_row(const shm::RankStatus& rank) {
  const shm::Activity& now = rank.activity;
  std::string doing = now.operation.empty()
                          ? (now.barrier.empty() ? "" : "passed barrier '" + now.barrier + "'")
                          : shm::waiting_text(now) + ", " + base::format_bytes(static_cast<int64_t>(now.bytes));
  if (!rank.failure.empty()) doing = "failed: " + rank.failure;
  if (rank.condition == shm::ProcessCondition::Ended)
    doing = shm::condition_text(rank) + (doing.empty() ? "" : "; ") + doing;
  std::ostringstream phase;
  if (!now.phase.empty()) phase << now.phase << " " << base::format_duration(now.phase_seconds);
  std::cout << std::right << std::setw(5) << rank.rank << std::setw(9) << rank.process << "  " << std::left
            << std::setw(9) << condition_name(rank.condition) << std::right << std::setw(8) << now.step << "  "
            << std::left << std::setw(26) << phase.str() << "  " << doing << "\n";
}

bool print_now(const shm::StatusBoard& board, bool json) {
  bool any_lives = false;
  auto list = base::Json::array();
  if (!json) std::cout << " rank  process  condition    step  phase                       doing\n";
  for (int rank = 0; rank < board.ranks(); ++rank) {
    const shm::RankStatus status = board.read(rank);
    any_lives |= status.condition == shm::ProcessCondition::Alive || status.condition == shm::ProcessCondition::Stopped;
    if (json) {
      list.push_back(to_json(status));
    } else {
      print_row(status);
    }
  }
  if (json) std::cout << base::Json{{"running", true}, {"ranks", list}}.dump(2) << "\n";
  std::cout << std::flush;
  if (!std::cout) throw base::SystemError("cannot write to stdout");
  return any_lives;
}

}  // namespace

int print_status(const std::string& run, bool json, bool watch) {
  for (bool first = true;; first = false) {
    const auto board = first || fs::is_directory(run) || fs::exists("/proc/" + run) ? find_board(run) : nullptr;
    if (!board) {
      if (fs::is_directory(run)) print_ended(run, json);
      return 0;
    }
    const bool lives = print_now(*board, json);
    if (!watch || !lives) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace trireme::cli
