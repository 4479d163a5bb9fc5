#include "trireme/base/json.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

std::string json_error(std::string_view text, JsonComments comments = JsonComments::Allowed) {
  try {
    parse_json(text, "f.json", comments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Json, keeps_order_and_values) {
  const Json value = parse_json(R"({"z": 1, "a": [true, null, -2.5, "x"], "m": {"k": 18446744073709551615}})", "f");
  EXPECT_EQ(value.dump(), R"({"z":1,"a":[true,null,-2.5,"x"],"m":{"k":18446744073709551615}})");
  EXPECT_EQ(value["m"]["k"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("3", "f"), Json(3));
}

TEST(Json, comments_of_three_kinds) {
  const Json value =
      parse_json("# head\n{\"a\": /* one\n two */ 1, // end\n \"b # c\": \"// x /* y */ \\\" # z\"} # tail", "f");
  EXPECT_EQ(value.dump(), R"({"a":1,"b # c":"// x /* y */ \" # z"})");
  EXPECT_EQ(json_error("{} /* x"), "f.json:1:4: this comment has no end");
  EXPECT_EQ(json_error("{}\n# x", JsonComments::Refused), "f.json:2:1: comments are not allowed here");
}

TEST(Json, syntax_errors_show_line_and_column) {
  EXPECT_EQ(json_error("{\n  \"a\": 1\n  \"b\": 2\n}"),
            "f.json:3:3: syntax error while parsing object - unexpected string literal; expected '}'");
  EXPECT_EQ(json_error("# comment\n{\"a\": ]"),
            "f.json:2:7: syntax error while parsing value - unexpected ']'; expected '[', '{', or a literal");
  EXPECT_EQ(json_error("{} x").substr(0, 24), "f.json:1:4: syntax error");
  EXPECT_EQ(json_error("{\"a\": [1, 2").substr(0, 25), "f.json:1:12: syntax error");
  EXPECT_EQ(json_error(" \n # only a comment"), "f.json:1:1: no JSON here: the text is empty");
  EXPECT_EQ(json_error(""), "f.json:1:1: no JSON here: the text is empty");
}

TEST(Json, duplicate_keys_are_named_by_path) {
  EXPECT_EQ(json_error("{\"optimizer\": {\"params\": {\"lr\": 1,\n\"lr\": 1}}}"),
            "f.json:2:4: duplicate key 'optimizer.params.lr'");
  EXPECT_EQ(json_error(R"({"a": [0, {"b": 1, "b": 1}]})"), "f.json:1:22: duplicate key 'a[1].b'");
  EXPECT_EQ(json_error(R"([[{"b": 1, "b": 1}]])"), "f.json:1:14: duplicate key '[0][0].b'");
  EXPECT_EQ(json_error(R"({"a": {"x": 1}, "b": {"x": 1}})"), "accepted");
}

TEST(Json, B126_numbers_that_are_none) {
  EXPECT_EQ(json_error("{\"lr\": NaN}"), "f.json:1:8: NaN is not a JSON number; write a finite number");
  EXPECT_EQ(json_error("{\"lr\": -Infinity}"), "f.json:1:9: Infinity is not a JSON number; write a finite number");
  EXPECT_EQ(json_error("{\"lr\": 1e999}"), "f.json:1:8: number 1e999 is beyond the range of a double");
  EXPECT_EQ(json_error("[-1e400]"), "f.json:1:2: number -1e400 is beyond the range of a double");
  EXPECT_EQ(json_error("[True]"), "f.json:1:2: True is not JSON; write true");
  EXPECT_EQ(json_error("[\"NaN\", 1e5, 2E-3, 1e-999]"), "accepted");
}

TEST(Json, deep_nesting_is_refused_and_no_crash) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(json_error(deep), "f.json:1:257: nested deeper than 256 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(json_error(objects), "f.json:1:1281: nested deeper than 256 levels");
  EXPECT_EQ(json_error(std::string(256, '[') + std::string(256, ']')), "accepted");
}

TEST(Json, many_keys_take_linear_time) {
  std::string text = "{\"k\": 0";
  for (int i = 0; i < 100'000; ++i) text += ", \"key" + std::to_string(i) + "\": 1";
  EXPECT_EQ(parse_json(text + "}", "f").size(), 100'001U);
}

TEST(Json, messages_are_one_printable_line) {
  const std::string error = json_error("{\"a\n\x01\xff" + std::string(10'000, 'x') + "\": 1}");
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_LT(error.size(), 500U);
  EXPECT_EQ(shown(Json(std::string(1000, 'y'))).size(), 80 + std::string("…").size());
}

}  // namespace
}  // namespace trireme::base
