#pragma once

#include <string>
#include <string_view>

#include "trireme/base/error.h"

// Lines for people, on standard error. Callable from any thread.
namespace trireme::base {

enum class Level { Debug, Info, Warning, Error };

/// Lines below this level are dropped. Info at the start.
void set_log_level(Level level);
bool log_enabled(Level level);

/// "debug", "info", "warning", "error"; UsageError for anything else, with the nearest.
Level log_level_named(std::string_view name);

/// Put before every line, such as "[rank 1] ".
void set_log_prefix(std::string prefix);

/// Writes prefix, "warning: " or the like, and the text. Each line is one write(2), so lines of several processes do
/// not mix; a text of several lines gets the prefix on each. A failing write is ignored.
void log(Level level, std::string_view text);

template <class... Parts>
void log_debug(const Parts&... parts) {
  if (log_enabled(Level::Debug)) log(Level::Debug, text_of(parts...));
}
template <class... Parts>
void log_info(const Parts&... parts) {
  if (log_enabled(Level::Info)) log(Level::Info, text_of(parts...));
}
template <class... Parts>
void log_warning(const Parts&... parts) {
  if (log_enabled(Level::Warning)) log(Level::Warning, text_of(parts...));
}
template <class... Parts>
void log_error(const Parts&... parts) {
  log(Level::Error, text_of(parts...));
}

}  // namespace trireme::base
