#include "trireme/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <functional>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/checksum.h"

namespace trireme::checkpoint {
namespace {

Manifest example_manifest() {
  Manifest manifest;
  manifest.step = 100;
  manifest.run_id = "run \"a\"";
  manifest.ranks = 2;
  manifest.files = {{"shard_00000.safetensors", 1000, 200, 0x123456789abcdef0}, {"state.json", 5, 5, 7}};
  manifest.tensors.push_back({{"w", {4, 3}, base::DType::F32},
                              {{{{{0, 0}, {4, 2}}}, 0, 8, "shard_00000.safetensors", 200, 0xffffffffffffffff},
                               {{{{0, 2}, {4, 3}}}, 0, 4, "shard_00000.safetensors", 232, 1}}});
  manifest.tensors.push_back({{"empty", {0}, base::DType::BF16}, {}});
  manifest.tensors.push_back({{"scalar", {}, base::DType::F64}, {{{}, 0, 1, "shard_00000.safetensors", 248, 2}}});
  return manifest;
}

std::string error_of(const std::string& text) {
  try {
    parse_manifest(text, "m.json");
  } catch (const base::DataError& error) {
    return error.what();
  }
  return "";
}

/// The text with a change in its JSON and a checksum that fits.
std::string changed(const std::function<void(base::Json&)>& change) {
  base::Json json = base::Json::parse(manifest_text(example_manifest()));
  change(json);
  json.erase("checksum");
  const std::string body = json.dump().substr(1);
  return "{\"checksum\": \"" + checksum_text(checksum_of(std::as_bytes(std::span(body)))) + "\",\n" + body;
}

TEST(Manifest, RoundTrip) {
  const Manifest manifest = example_manifest();
  const Manifest parsed = parse_manifest(manifest_text(manifest), "m.json");
  EXPECT_EQ(parsed.step, 100);
  EXPECT_EQ(parsed.run_id, manifest.run_id);
  EXPECT_EQ(parsed.ranks, 2);
  ASSERT_EQ(parsed.files.size(), 2u);
  EXPECT_EQ(parsed.files[0].checksum, 0x123456789abcdef0);
  EXPECT_EQ(parsed.files[0].checked_bytes, 200u);
  ASSERT_EQ(parsed.tensors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(parsed.tensors[i].info, manifest.tensors[i].info);
  EXPECT_EQ(parsed.tensors[0].pieces[1].boxes, manifest.tensors[0].pieces[1].boxes);
  EXPECT_EQ(parsed.tensors[0].pieces[0].checksum, 0xffffffffffffffff);
  EXPECT_EQ(manifest_text(parsed), manifest_text(manifest));
}

TEST(Manifest, AnyFlippedByteOrTruncationIsRefused) {
  const std::string text = manifest_text(example_manifest());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_NE(error_of(flipped), "") << "byte " << i;
    EXPECT_NE(error_of(text.substr(0, i)), "") << "length " << i;
  }
}

TEST(Manifest, WrongContentsAreRefusedByName) {
  using base::Json;
  EXPECT_EQ(error_of(changed([](Json&) {})), "");
  const std::pair<std::function<void(Json&)>, const char*> cases[] = {
      {[](Json& j) { j["version"] = 2; }, "m.json: the checkpoint's format version is 2, this program reads 1"},
      {[](Json& j) { j["step"] = -1; }, "m.json: 'step' must be an integer from 0 on, not -1"},
      {[](Json& j) { j["step"] = "x"; }, "m.json: 'step' must be an integer from 0 on, not \"x\""},
      {[](Json& j) { j["step"] = 18446744073709551615u; },
       "m.json: 'step' must be an integer from 0 on, not 18446744073709551615"},
      {[](Json& j) { j.erase("tensors"); }, "m.json: 'tensors' is missing"},
      {[](Json& j) { j["tensors"] = 3; }, "m.json: 'tensors' must be a list, not 3"},
      {[](Json& j) { j["tensors"][0]["dtype"] = "F7"; }, "m.json: tensor 'w' has the unknown dtype 'F7'"},
      {[](Json& j) { j["tensors"][0]["pieces"].erase(1); }, "m.json: elements [0:4, 2:3] of tensor 'w' are in no file"},
      {[](Json& j) {
         j["tensors"][0]["pieces"][1]["boxes"] = {{{0, 1}, {4, 2}}};
       },
       "of tensor 'w' are"},
      {[](Json& j) { j["tensors"][0]["pieces"][1] = j["tensors"][0]["pieces"][0]; }, "of tensor 'w' are"},
      {[](Json& j) { j["tensors"][2]["pieces"].push_back(j["tensors"][2]["pieces"][0]); },
       "elements [] of tensor 'scalar' are stored 2 times, in shard_00000.safetensors, shard_00000.safetensors"},
      {[](Json& j) { j["tensors"][0]["pieces"][0]["file"] = "other"; },
       "m.json: tensor 'w' lies in the file 'other', which is not listed"},
      {[](Json& j) { j["tensors"][0]["pieces"][0]["offset"] = 969; },
       "m.json: tensor 'w' has 8 elements at byte 969 of shard_00000.safetensors, which has 1000 bytes"},
      {[](Json& j) { j["tensors"][0]["pieces"][0]["offset"] = 9223372036854775807; }, "at byte 9223372036854775807"},
      {[](Json& j) { j["tensors"][0]["pieces"][0]["end"] = 9; }, "has the range [0, 9) of 8 elements"},
      {[](Json& j) { j["tensors"][0]["pieces"][0]["checksum"] = "zz"; },
       "m.json: 'checksum' must be 16 hexadecimal digits, not 'zz'"},
      {[](Json& j) {
         j["tensors"][0]["shape"] = {8589934592, 8589934592};
       },
       "has more than 2^62 elements"},
      {[](Json& j) { j["tensors"][1]["name"] = "w"; }, "m.json: tensor 'w' is listed twice"},
      {[](Json& j) { j["files"][0]["name"] = "../x"; }, "m.json: the file name '../x' is not"},
      {[](Json& j) { j["files"][0]["checked_bytes"] = 1001; }, "1001 are checked"},
      {[](Json& j) { j["files"] = {1}; }, "an object with 'name' is expected, not 1"},
  };
  for (const auto& [change, expected] : cases)
    EXPECT_NE(error_of(changed(change)).find(expected), std::string::npos)
        << "expected " << expected << "\ngot " << error_of(changed(change));
}

}  // namespace
}  // namespace trireme::checkpoint
