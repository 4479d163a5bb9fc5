#include "trireme/base/tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

namespace fs = std::filesystem;

class Tokens : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "trireme_tokens_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = folder_ + "/" + name;
    write_file_atomically(path, content);
    return path;
  }

  std::string folder_;
};

template <class Word>
std::string bytes_of(const std::vector<Word>& words) {
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(Word));
}

std::string llmc_header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header);
}

std::vector<int64_t> all(const TokenFile& file) {
  std::vector<int64_t> out(static_cast<size_t>(file.size()));
  file.read(0, out);
  return out;
}

std::string token_error(const std::string& path, TokenFormat format = TokenFormat::Detect) {
  try {
    TokenFile file(path, format);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(Tokens, text_has_one_token_a_byte) {
  const TokenFile file(write("text.txt", "Az\xff\n"));
  EXPECT_EQ(file.format(), TokenFormat::Bytes);
  EXPECT_EQ(all(file), (std::vector<int64_t>{65, 122, 255, 10}));
}

TEST_F(Tokens, nanogpt) {
  const TokenFile file(write("train.bin", bytes_of<uint16_t>({1, 50256, 65535})));
  EXPECT_EQ(file.format(), TokenFormat::Uint16);
  EXPECT_EQ(all(file), (std::vector<int64_t>{1, 50256, 65535}));
  EXPECT_EQ(TokenFile(file.path(), TokenFormat::Bytes).size(), 6);
}

TEST_F(Tokens, llmc_of_both_kinds) {
  const TokenFile gpt2(write("gpt2.bin", llmc_header(20240520, 1, 3) + bytes_of<uint16_t>({5, 6, 50256})));
  EXPECT_EQ(gpt2.format(), TokenFormat::LlmC);
  EXPECT_EQ(all(gpt2), (std::vector<int64_t>{5, 6, 50256}));
  const TokenFile llama(write("llama.bin", llmc_header(20240801, 7, 2) + bytes_of<uint32_t>({128000, 4294967295})));
  EXPECT_EQ(all(llama), (std::vector<int64_t>{128000, 4294967295}));
}

TEST_F(Tokens, any_window_equals_the_whole) {
  std::vector<uint16_t> tokens(100'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * 7919);
  const TokenFile file(write("x.bin", bytes_of(tokens)));
  for (const auto& [begin, count] : std::vector<std::pair<size_t, size_t>>{{0, 0}, {0, 1}, {3, 99'990}, {99'999, 1}}) {
    std::vector<int64_t> out(count);
    file.read(static_cast<int64_t>(begin), out);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
  std::vector<int64_t> two(2);
  EXPECT_THROW(file.read(99'999, two), InternalError);
  EXPECT_THROW(file.read(-1, two), InternalError);
  EXPECT_THROW(file.read(INT64_MAX, two), InternalError);
}

TEST_F(Tokens, unusable_files_are_refused_in_one_line) {
  const std::string missing = folder_ + "/missing.txt";
  EXPECT_EQ(token_error(missing), "cannot open '" + missing + "': No such file or directory");
  EXPECT_EQ(token_error(folder_), "'" + folder_ + "' is a directory, not a file");
  const std::string empty = write("empty.txt", "");
  EXPECT_EQ(token_error(empty), "token file '" + empty + "' is empty");
  const std::string odd = write("odd.bin", "abc");
  EXPECT_EQ(token_error(odd),
            "token file '" + odd +
                "' ends within a token: it has 3 bytes, an odd number, and each uint16 token has 2; a text "
                "file must not end in .bin");
  if (geteuid() != 0) {
    chmod(odd.c_str(), 0);
    EXPECT_EQ(token_error(odd), "cannot open '" + odd + "': Permission denied");
  }
}

TEST_F(Tokens, headers_that_disagree) {
  const std::string count = write("count.bin", llmc_header(20240520, 1, 1000) + "abcdef");
  EXPECT_EQ(token_error(count),
            "token file '" + count +
                "' disagrees with its header: 1000 tokens of 2 bytes make 3024 bytes, the file has 1030");
  const std::string negative = write("negative.bin", llmc_header(20240520, 1, -1) + "ab");
  EXPECT_EQ(token_error(negative),
            "token file '" + negative +
                "' disagrees with its header: 4294967295 tokens of 2 bytes make 8589935614 bytes, the file has 1026");
  const std::string version = write("version.bin", llmc_header(20240520, 2, 1) + "ab");
  EXPECT_EQ(token_error(version),
            "token file '" + version + "' has llm.c version 2; with magic 20240520 only version 1 is known");
  const std::string cut = write("cut.bin", llmc_header(20240801, 7, 1).substr(0, 1000));
  EXPECT_EQ(token_error(cut),
            "token file '" + cut + "' is cut within llm.c's header: it has 1000 bytes, the header alone 1024");
  const std::string none = write("none.bin", llmc_header(20240520, 1, 0));
  EXPECT_EQ(token_error(none), "token file '" + none + "' holds no tokens: its header says 0");
  const std::string foreign = write("foreign.bin", std::string(2000, '\1'));
  EXPECT_EQ(token_error(foreign, TokenFormat::LlmC),
            "token file '" + foreign + "' is not llm.c's: it starts with 16843009, not with 20240520 or 20240801");
}

TEST_F(Tokens, tokens_beyond_the_vocabulary_are_named) {
  std::vector<uint16_t> tokens(70'000, 7);
  tokens[69'000] = 256;
  const TokenFile file(write("x.bin", bytes_of(tokens)));
  const std::string expected = "token file '" + file.path() +
                               "' holds token 256 at position 69000, but the vocabulary has 256 (0 to 255); raise "
                               "model.vocab_size, or say what the file is with data.format";
  try {
    file.check(256);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), expected);
  }
  std::vector<int64_t> out(10);
  file.read(68'990, out, 256);
  try {
    file.read(68'995, out, 256);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), expected);
  }
  file.check(257);
  file.check(65'536);
}

TEST_F(Tokens, a_file_that_shrinks_while_read) {
  const TokenFile file(write("x.txt", std::string(10'000, 'x')));
  std::vector<int64_t> out(100);
  file.read(9'000, out);
  fs::resize_file(file.path(), 9'050);
  try {
    file.read(9'000, out);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(),
              "'" + file.path() +
                  "' has shrunk while it was read: it had 10000 bytes and now ends at 9050, before 9100; restore it");
  }
  EXPECT_THROW(file.check(128), DataError);
}

TEST_F(Tokens, many_threads_read_one_file) {
  std::vector<uint16_t> tokens(50'000);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  const TokenFile file(write("x.bin", bytes_of(tokens)));
  std::vector<int64_t> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::vector<int64_t> out(64);
      for (int64_t begin = static_cast<int64_t>(t); begin + 64 <= file.size(); begin += 97) {
        file.read(begin, out);
        for (int64_t i = 0; i < 64; ++i) wrong[t] += out[static_cast<size_t>(i)] != begin + i;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::vector<int64_t>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace trireme::base
