#include "trireme/shm/tuned_table.h"

#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/log.h"
#include "trireme/shm/measure_table.h"

namespace trireme::shm {
namespace {

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') return cache;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') return std::string(home) + "/.cache";
  const passwd* user = getpwuid(getuid());
  return user == nullptr ? "" : std::string(user->pw_dir) + "/.cache";
}

// "intel-xeon-platinum-8481c"
std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string name = "unknown-processor";
  for (std::string line; std::getline(cpuinfo, line);) {
    const auto colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!plain.empty() && plain.back() != '-') {
      plain += '-';
    }
  }
  return plain;
}

/// Cores on which some rank may run.
int cores_of_all(Communicator& communicator) {
  cpu_set_t own;
  std::vector<std::byte> cores(CPU_SETSIZE);
  if (sched_getaffinity(0, sizeof own, &own) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) cores[core] = std::byte{CPU_ISSET(core, &own) != 0};
  }
  communicator.wait(communicator.all_reduce(cores.data(), cores.size(), base::DType::U8, ReduceOp::Max));
  return static_cast<int>(std::count(cores.begin(), cores.end(), std::byte{1}));
}

AlgorithmTable read_table(const std::string& file) {
  return table_from_json(base::parse_json(base::read_regular_file(file), file), file);
}

std::optional<AlgorithmTable> kept_table(const std::string& file) {
  if (file.empty() || !std::filesystem::exists(file)) return {};
  try {
    return read_table(file);
  } catch (const base::Error& error) {
    const std::string text = error.what();
    base::log_warning(text.substr(0, text.find('\n')), "; the table of algorithms is measured again");
    return {};
  }
}

std::string keep(const AlgorithmTable& table, const std::string& file) {
  if (file.empty()) return "measured now and not kept, as this user has no home";
  try {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
    base::write_file_atomically(file, to_json(table).dump(2) + "\n");
    return "measured now, kept in " + file;
  } catch (const base::Error& error) {
    return base::text_of("measured now and not kept: ", error.what());
  }
}

/// Rank 0's `message` on every rank.
base::Json from_rank_0(Communicator& communicator, const base::Json& message) {
  std::string text = message.dump();
  uint64_t bytes = text.size();
  communicator.wait(communicator.broadcast(reinterpret_cast<std::byte*>(&bytes), sizeof bytes, 0));
  text.resize(bytes);
  communicator.wait(communicator.broadcast(reinterpret_cast<std::byte*>(text.data()), bytes, 0));
  return base::parse_json(text, "rank 0's table of algorithms");
}

/// What rank 0 found: a table with its origin, an error, or nothing.
base::Json find_table(const std::string& given, const std::string& kept) {
  try {
    if (!given.empty()) return {{"table", to_json(read_table(given))}, {"origin", "given by " + given}};
    if (const auto table = kept_table(kept)) return {{"table", to_json(*table)}, {"origin", "kept in " + kept}};
  } catch (const base::Error& error) {
    return {{"error", error.what()}};
  }
  return base::Json::object();
}

}  // namespace

std::string table_file(int ranks, int cores) {
  const std::string folder = cache_folder();
  if (folder.empty()) return "";
  const std::string place = cores < ranks ? base::text_of("-on-", cores, "-cores") : "";
  return base::text_of(folder, "/trireme/algorithms-", processor_name(), "-", ranks, place, ".json");
}

TunedTable tuned_table(Communicator& communicator, const std::string& given) {
  const std::string file = table_file(communicator.size(), cores_of_all(communicator));
  const bool first = communicator.rank() == 0;
  const base::Json found = from_rank_0(communicator, first ? find_table(given, file) : base::Json());
  if (found.contains("error")) throw base::ConfigError(found["error"].get<std::string>());
  if (found.contains("table")) {
    TunedTable tuned{table_from_json(found["table"], "rank 0's table of algorithms"), found["origin"]};
    communicator.set_table(tuned.table);
    return tuned;
  }
  TunedTable tuned{measure_table(communicator), ""};
  tuned.origin = from_rank_0(communicator, first ? base::Json(keep(tuned.table, file)) : base::Json());
  return tuned;
}

}  // namespace trireme::shm
