#include "trireme/base/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "trireme_safetensors_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ + "/f";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
  std::string path_;
};

std::string file_with(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\0');
}

std::string header_error(const std::string& file) {
  try {
    parse_safetensors_header(std::as_bytes(std::span(file)), "f");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

std::string entry_error(const std::string& entry, size_t data_bytes) {
  return header_error(file_with("{\"w\": " + entry + "}", data_bytes));
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string of(const std::string& sentence) {
  return "safetensors file 'f', tensor 'w': " + sentence;
}

TEST(SafetensorsCases, X10_offsets_are_not_trusted) {
  const int64_t before = resident_bytes();
  // (a) to (h)
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4]})", 4),
            of("F32 of shape [1000, 1000] needs 4000000 bytes, data_offsets [0, 4] hold 4"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})", 8),
            of("data_offsets begin at 8 behind their end at 0"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [4], "data_offsets": [-8, 8]})", 8),
            of("data_offsets must be two integers from 0, begin and end, not [-8,8]"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": [8]})", 8),
            of("data_offsets must be two integers from 0, begin and end, not [8]"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]})", 8),
            of("data_offsets must be two integers from 0, begin and end, not [0,4,8]"));
  EXPECT_EQ(entry_error(R"({"dtype": "F7", "shape": [4], "data_offsets": [18446744073709551608, 8]})", 8),
            of("data_offsets begin at 18446744073709551608 behind their end at 8"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [8589934592, 8589934592], "data_offsets": [0, 0]})", 0),
            of("F32 of shape [8589934592, 8589934592] needs more than 2^63 bytes, data_offsets [0, 0] hold 0"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})", 7),
            of("data_offsets end at 8, the file's data at 7"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8.0]})", 8),
            of("data_offsets must be two integers from 0, begin and end, not [0.0,8.0]"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": ["0", "8"]})", 8),
            of("data_offsets must be two integers from 0, begin and end, not [\"0\",\"8\"]"));
  EXPECT_LT(resident_bytes() - before, 10 << 20);
}

TEST(SafetensorsCases, X10_unknown_dtypes_and_wrong_shapes) {
  EXPECT_EQ(entry_error(R"({"dtype": "F7", "shape": [2], "data_offsets": [0, 8]})", 8),
            of("dtype \"F7\" is not supported; must be one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL"));
  EXPECT_EQ(entry_error(R"({"dtype": 32, "shape": [2], "data_offsets": [0, 8]})", 8).substr(0, 60),
            of("dtype 32 is not supported; must be one").substr(0, 60));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})", 8),
            of("shape [-2] holds -2, which is no size"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]})", 8),
            of("shape [2.0] holds 2.0, which is no size"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": 2, "data_offsets": [0, 8]})", 8),
            of("shape must be a list, not 2"));
  EXPECT_EQ(entry_error(R"({"dtype": "F32", "shape": [2]})", 8), of("its header entry has no \"data_offsets\""));
  EXPECT_EQ(entry_error("3", 8), of("its header entry must be an object, not 3"));
  EXPECT_EQ(entry_error(R"({"dtype": "F64", "shape": [2305843009213693952], "data_offsets": [0, 0]})", 0),
            of("F64 of shape [2305843009213693952] needs more than 2^63 bytes, data_offsets [0, 0] hold 0"));
}

TEST(SafetensorsCases, broken_files_are_told_apart) {
  EXPECT_EQ(header_error("abc"),
            "safetensors file 'f' is too short: it has 3 bytes, the length of its header alone takes 8");
  EXPECT_EQ(header_error(""),
            "safetensors file 'f' is too short: it has 0 bytes, the length of its header alone takes 8");
  EXPECT_EQ(
      header_error(std::string(8, '\xff') + "{}"),
      "safetensors file 'f' is cut, or is no safetensors file: its header should have 18446744073709551615 bytes, 2 "
      "follow");
  EXPECT_EQ(header_error(file_with("{\"w\": 1", 0)).substr(0, 54),
            "safetensors file 'f': header:1:8: syntax error while p");
  EXPECT_EQ(header_error(file_with("[]", 0)), "safetensors file 'f': the header must be an object, not []");
  EXPECT_EQ(header_error(file_with("{} # x", 0)), "safetensors file 'f': header:1:4: comments are not allowed here");
  EXPECT_EQ(header_error(file_with("{}", 3)),
            "safetensors file 'f': the tensors end at byte 0 of the data, the file has 3");
  EXPECT_EQ(header_error(file_with(R"({"__metadata__": {"a": 1}})", 0)),
            "safetensors file 'f': __metadata__ 'a' must be a string, not 1");
  const std::string one = R"("w": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]})";
  EXPECT_EQ(header_error(file_with("{" + one + ", " + one + "}", 2)),
            "safetensors file 'f': header:1:64: duplicate key 'w'");
  EXPECT_EQ(header_error(file_with("{" + one + R"(, "v": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})", 3)),
            "safetensors file 'f', tensor 'v': data_offsets begin at 1, but the tensors before end at 2: they overlap");
  EXPECT_EQ(
      header_error(file_with("{" + one + R"(, "v": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]}})", 5)),
      "safetensors file 'f', tensor 'v': data_offsets begin at 3, but the tensors before end at 2: there is a gap");
}

TEST(SafetensorsCases, a_huge_header_is_refused_before_it_is_parsed) {
  const std::string path = testing::TempDir() + "trireme_huge_header_" + std::to_string(getpid());
  {
    std::ofstream file(path, std::ios::binary);
    const uint64_t length = 200'000'000;
    file.write(reinterpret_cast<const char*>(&length), 8);
  }
  fs::resize_file(path, 300'000'000);  // sparse
  const int64_t before = resident_bytes();
  try {
    SafetensorsFile file(path);
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()),
              "safetensors file '" + path + "' has a header of 200000000 bytes, more than the allowed 100000000");
  }
  EXPECT_LT(resident_bytes() - before, 10 << 20);
  fs::remove(path);
}

TEST_F(Safetensors, written_and_read_back) {
  std::vector<float> weight(6);
  std::iota(weight.begin(), weight.end(), 1.0F);
  const std::vector<uint8_t> flags{1, 0, 1};
  const int64_t step = 42;
  const std::vector<TensorSource> tensors{{"flags", DType::Bool, {3}, std::as_bytes(std::span(flags))},
                                          {"h.0.weight", DType::F32, {2, 3}, std::as_bytes(std::span(weight))},
                                          {"none", DType::BF16, {0, 4}, {}},
                                          {"step", DType::I64, {}, std::as_bytes(std::span(&step, 1))}};
  write_safetensors(path_, tensors, {{"format", "pt"}, {"quote\"", "line\n"}});

  const SafetensorsFile file(path_);
  ASSERT_EQ(file.entries().size(), 4U);
  EXPECT_EQ(file.entries()[0].name, "step") << "wide elements come first";
  EXPECT_EQ(file.metadata().at("quote\""), "line\n");
  const TensorEntry& entry = file.at("h.0.weight");
  EXPECT_EQ(entry.dtype, DType::F32);
  EXPECT_EQ(entry.shape, (std::vector<int64_t>{2, 3}));
  const auto bytes = file.bytes(entry);
  ASSERT_EQ(bytes.size(), 24U);
  EXPECT_EQ(std::memcmp(bytes.data(), weight.data(), 24), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4, 0U);
  float fifth = 0;
  file.read(entry, 16, std::as_writable_bytes(std::span(&fifth, 1)));
  EXPECT_EQ(fifth, 5.0F);
  EXPECT_EQ(file.bytes(file.at("none")).size(), 0U);
  EXPECT_EQ(std::memcmp(file.bytes(file.at("step")).data(), &step, 8), 0);
  EXPECT_EQ(file.find("absent"), nullptr);
  try {
    file.at("h.0.wieght");
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()),
              "safetensors file '" + path_ + "' has no tensor 'h.0.wieght'; did you mean 'h.0.weight'?");
  }
  EXPECT_THROW(file.read(entry, 20, std::as_writable_bytes(std::span(weight))), InternalError);
}

TEST_F(Safetensors, a_file_that_shrinks_gives_an_error_by_read) {
  const std::vector<double> values(100, 1.0);
  const std::vector<TensorSource> tensors{{"w", DType::F64, {100}, std::as_bytes(std::span(values))}};
  write_safetensors(path_, tensors);
  const SafetensorsFile file(path_);
  fs::resize_file(path_, 100);
  std::vector<double> out(100);
  EXPECT_THROW(file.read(file.at("w"), 0, std::as_writable_bytes(std::span(out))), DataError);
}

TEST_F(Safetensors, wrong_sources_are_our_fault_and_leave_no_file) {
  const float value = 1;
  const TensorSource good{"w", DType::F32, {1}, std::as_bytes(std::span(&value, 1))};
  TensorSource wrong = good;
  wrong.shape = {2};
  EXPECT_THROW(write_safetensors(path_, std::vector{wrong}), InternalError);
  EXPECT_THROW(write_safetensors(path_, std::vector{good, good}), InternalError);
  EXPECT_THROW(write_safetensors(folder_ + "/no/f", std::vector{good}), SystemError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST(ElementCount, shapes) {
  EXPECT_EQ(element_count(std::vector<int64_t>{}), 1);
  EXPECT_EQ(element_count(std::vector<int64_t>{2, 3, 4}), 24);
  EXPECT_EQ(element_count(std::vector<int64_t>{INT64_MAX, INT64_MAX, 0}), 0);
  EXPECT_EQ(element_count(std::vector<int64_t>{INT64_MAX, 2}), std::nullopt);
  EXPECT_EQ(element_count(std::vector<int64_t>{-1}), std::nullopt);
}

TEST(DType, names_and_sizes) {
  EXPECT_EQ(dtype_named("BF16"), DType::BF16);
  EXPECT_EQ(size_of(DType::BF16), 2U);
  EXPECT_EQ(name_of(DType::Bool), "BOOL");
  EXPECT_EQ(size_of(DType::I64), 8U);
  EXPECT_EQ(dtype_named("bf16"), std::nullopt);
}

}  // namespace
}  // namespace trireme::base
