#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme::base {

/// The known name nearest to a wrong one: letters inserted, dropped, replaced or swapped count one each (optimal string
/// alignment), case counts nothing. Nothing if more than a third of the name would have to change. Ties go to the
/// first.
std::optional<std::string> nearest_name(std::string_view wrong, std::span<const std::string> known);

/// "; did you mean 'gradient_clipping'?" or "".
std::string did_you_mean(std::string_view wrong, std::span<const std::string> known);

/// Foreign text for a one-line message: control bytes become \xNN, and what exceeds about `limit` bytes is cut.
std::string printable(std::string_view text, size_t limit = 80);
/// The same in single quotes. To be called as base::quoted: a std::string as argument would also find std::quoted.
std::string quoted(std::string_view text, size_t limit = 80);

/// "a, b, c".
std::string joined(std::span<const std::string> names, std::string_view separator = ", ");

}  // namespace trireme::base
