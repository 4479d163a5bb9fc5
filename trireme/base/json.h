#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme::base {

/// A JSON value whose objects keep the order of the file.
using Json = nlohmann::ordered_json;

enum class JsonComments { Allowed, Refused };

/// Parses one JSON document. `//`, `#` and `/* */` comments count as white space unless refused.
/// Refused, with a ConfigError "SOURCE:LINE:COLUMN: sentence" (columns count bytes from 1): syntax errors, text after
/// the document, duplicate keys (named by path), NaN, Infinity and numbers beyond a double, nesting deeper than 256
/// levels.
Json parse_json(std::string_view text, const std::string& source, JsonComments comments = JsonComments::Allowed);

/// The value on one line for a message, cut after about `limit` bytes.
std::string shown(const Json& value, size_t limit = 80);

}  // namespace trireme::base
