#include "trireme/base/reader.h"

#include <gtest/gtest.h>

#include <limits>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

/// The violations that `read` finds in the object, one a line.
template <class Read>
std::string violations_of(const char* text, Read read) {
  const Json value = parse_json(text, "f");
  Violations violations;
  Reader reader(value, "", violations);
  read(reader);
  return violations.text();
}

TEST(Reader, reads_every_type) {
  const auto text = R"({"i": -3, "e": 5e8, "d": 2, "b": true, "s": "x", "v": [1, 2.5], "n": null, "o": {"k": 7}})";
  EXPECT_EQ(violations_of(text,
                          [](Reader& reader) {
                            EXPECT_EQ(reader.get<int64_t>("i", 0), -3);
                            EXPECT_EQ(reader.get<int>("i", 0), -3);
                            EXPECT_EQ(reader.get<int64_t>("e", 0), 500'000'000);
                            EXPECT_EQ(reader.get("d", 0.0), 2.0);
                            EXPECT_EQ(reader.get("b", false), true);
                            EXPECT_EQ(reader.get<std::string>("s", ""), "x");
                            EXPECT_EQ(reader.get<std::vector<double>>("v", {}), (std::vector<double>{1, 2.5}));
                            EXPECT_EQ(reader.get<int64_t>("n", 9), 9);
                            EXPECT_EQ(reader.get<int64_t>("absent", 8), 8);
                            EXPECT_FALSE(reader.has("n"));
                            EXPECT_TRUE(reader.has("s"));
                            EXPECT_EQ(reader.raw("v").size(), 2U);
                            EXPECT_TRUE(reader.raw("none").is_null());
                            Reader nested = reader.object("o");
                            EXPECT_EQ(nested.require<int64_t>("k"), 7);
                            nested.finish();
                            reader.finish();
                          }),
            "");
}

TEST(Reader, wrong_types_name_path_and_value) {
  const auto text = R"({"optimizer": {"params": {"lr": "fast", "betas": [0.9, "x"], "n": 2.5, "b": 1, "o": []}}})";
  EXPECT_EQ(violations_of(text,
                          [](Reader& reader) {
                            Reader params = reader.object("optimizer").object("params");
                            EXPECT_EQ(params.get("lr", 0.5), 0.5);
                            params.get<std::vector<double>>("betas", {});
                            EXPECT_EQ(params.get<int64_t>("n", 4), 4);
                            params.get("b", false);
                            params.object("o").finish();
                            params.require<std::string>("name");
                          }),
            "optimizer.params.lr: must be a number, not \"fast\"\n"
            "optimizer.params.betas: element 1: must be a number, not \"x\"\n"
            "optimizer.params.n: must be an integer, not 2.5\n"
            "optimizer.params.b: must be true or false, not 1\n"
            "optimizer.params.o: must be an object {…}, not []\n"
            "optimizer.params.name: is required");
}

TEST(Reader, B126_ranges_are_told) {
  const auto text =
      R"({"bucket": 0, "gas": -1, "huge": 1e30, "lr": 0, "betas": [1.0, 0.999], "stage": 4, "big": 9223372036854775808,
          "small": 3000000000, "one": [0.9]})";
  EXPECT_EQ(violations_of(text,
                          [](Reader& reader) {
                            reader.get<int64_t>("bucket", 1, {.min = 1});
                            reader.get<int64_t>("gas", 1, {.min = 1});
                            reader.get<int64_t>("huge", 1, {.min = 1});
                            reader.get("lr", 1.0, {.min = 0.0, .min_open = true});
                            reader.get<std::vector<double>>("betas", {},
                                                            {.element = {.min = 0.0, .max = 1.0, .max_open = true}});
                            reader.get<int64_t>("stage", 0, {.min = 0, .max = 3});
                            reader.get<int64_t>("big", 0);
                            reader.get<int>("small", 0);
                            reader.get<std::vector<double>>("one", {}, {.element = {}, .size = 2});
                          }),
            "bucket: 0 is out of range; must be at least 1\n"
            "gas: -1 is out of range; must be at least 1\n"
            "huge: 1e+30 is out of range; must be at least 1\n"
            "lr: 0 is out of range; must be above 0.0\n"
            "betas: element 0: 1.0 is out of range; must be at least 0.0 and below 1.0\n"
            "stage: 4 is out of range; must be at least 0 and at most 3\n"
            "big: 9223372036854775808 is out of range; must be an integer of 64 bits\n"
            "small: 3000000000 is out of range; must be at least -2147483648 and at most 2147483647\n"
            "one: must have 2 elements, not 1: [0.9]");
}

TEST(Reader, non_finite_numbers_of_any_origin_are_refused) {
  Json value = Json::object();
  value["lr"] = std::numeric_limits<double>::quiet_NaN();
  value["steps"] = std::numeric_limits<double>::infinity();
  Violations violations;
  Reader reader(value, "", violations);
  reader.get("lr", 1.0);
  reader.get<int64_t>("steps", 1);
  EXPECT_EQ(violations.size(), 2U);
  EXPECT_EQ(violations.text().substr(0, 35), "lr: must be a finite number, not na");
}

TEST(Reader, B129_names_come_with_the_legal_ones) {
  EXPECT_EQ(violations_of(R"({"type": "Adamm"})",
                          [](Reader& reader) {
                            reader.get<std::string>("type", "", {.one_of = {"Adam", "AdamW", "SGD"}});
                          }),
            "type: 'Adamm' is not known; must be one of 'Adam', 'AdamW', 'SGD'; did you mean 'Adam'?");
}

TEST(Reader, unread_keys_with_the_nearest_known) {
  const auto text = R"({"gradient_clipp1ng": 1, "steps": 2, "fp61": {}, "zzzzzz": 0, "later": 1, "o": {"b1as": 1}})";
  EXPECT_EQ(violations_of(text,
                          [](Reader& reader) {
                            reader.get("gradient_clipping", 1.0);
                            reader.get<int64_t>("steps", 1);
                            Reader nested = reader.object("o");
                            nested.know({"bias"});
                            nested.finish();
                            reader.refuse("later", "is not supported yet");
                            reader.refuse("absent", "is not supported yet");
                            reader.know({"fp16"});
                            reader.finish();
                          }),
            "o: unknown key 'b1as'; did you mean 'bias'?\n"
            "later: is not supported yet\n"
            "unknown key 'gradient_clipp1ng'; did you mean 'gradient_clipping'?\n"
            "unknown key 'fp61'; did you mean 'fp16'?\n"
            "unknown key 'zzzzzz'");
}

TEST(Violations, are_thrown_at_once) {
  Violations violations;
  violations.throw_if_any();
  violations.add("a.b", "is wrong");
  violations.add("", "nothing fits");
  try {
    violations.throw_if_any();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "a.b: is wrong\nnothing fits");
    EXPECT_EQ(error.exit_code(), 1);
  }
}

}  // namespace
}  // namespace trireme::base
