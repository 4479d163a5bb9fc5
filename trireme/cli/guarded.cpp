#include "trireme/cli/guarded.h"

#include <cstdlib>
#include <new>
#include <sstream>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/launch/launch.h"
#include "trireme/shm/status_writer.h"

namespace trireme::cli {
namespace {

std::string first_lines(const std::string& text, int most) {
  std::istringstream in(text);
  std::string result;
  std::string line;
  int count = 0;
  while (std::getline(in, line)) {
    if (++count <= most) result += (count > 1 ? "\n" : "") + line;
  }
  if (count > most && most > 1) result += base::text_of("\nand ", count - most, " more");
  return result;
}

/// A rank's last words, for the launcher's own.
void tell(const std::string& error) {
  base::log_error(error);
  const char* rank = std::getenv("RANK");
  const auto board = rank ? launch::board_of_launcher() : nullptr;
  if (!board) return;
  try {
    shm::RankStatusWriter(board, std::atoi(rank)).set_failure(first_lines(error, 1));
  } catch (const base::Error&) {
    return;  // it is of another run, which started this one
  }
}

}  // namespace

int guarded(const std::function<int()>& action) {
  constexpr int most_lines = 6;
  try {
    return action();
  } catch (const base::PeerLostError& error) {
    tell(first_lines(error.what(), most_lines));
    return std::getenv(launch::launcher_variable) ? launch::peer_lost_exit_code : error.exit_code();
  } catch (const base::Error& error) {
    tell(first_lines(error.what(), most_lines));
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    tell("out of memory");
    return 1;
  } catch (const std::exception& error) {
    tell(first_lines(error.what(), 1));
    return 1;
  }
}

}  // namespace trireme::cli
