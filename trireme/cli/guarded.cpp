#include "trireme/cli/guarded.h"

#include <cstdlib>
#include <new>
#include <sstream>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/launch/launch.h"

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

}  // namespace

int guarded(const std::function<int()>& action) {
  constexpr int most_lines = 6;
  try {
    return action();
  } catch (const base::PeerLostError& error) {
    base::log_error(first_lines(error.what(), most_lines));
    return std::getenv(launch::launcher_variable) ? launch::peer_lost_exit_code : error.exit_code();
  } catch (const base::Error& error) {
    base::log_error(first_lines(error.what(), most_lines));
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    base::log_error("out of memory");
    return 1;
  } catch (const std::exception& error) {
    base::log_error(first_lines(error.what(), 1));
    return 1;
  }
}

}  // namespace trireme::cli
