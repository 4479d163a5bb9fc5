#include "trireme/base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "trireme_file_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  std::string folder_;
};

template <class Expected, class Body>
std::string file_error(Body body) {
  try {
    body();
  } catch (const Expected& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(File, written_whole_and_read_back) {
  const std::string content("a\0b\n", 4);
  write_file_atomically(path("x"), "old");
  write_file_atomically(path("x"), content);
  EXPECT_EQ(read_file(path("x")), content);
  EXPECT_EQ(files(), 1U);
  const std::string large(5'000'000, 'z');
  write_file_atomically(path("large"), large);
  EXPECT_EQ(read_file(path("large")), large);
  write_file_atomically(path("empty"), "");
  EXPECT_EQ(read_file(path("empty")), "");
}

TEST_F(File, the_mode_follows_umask) {
  const mode_t old = umask(027);
  write_file_atomically(path("x"), "");
  umask(old);
  struct stat status {};
  ASSERT_EQ(stat(path("x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST_F(File, without_commit_nothing_is_left) {
  write_file_atomically(path("x"), "old");
  {
    AtomicFile file(path("x"));
    file.write("new");
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(read_file(path("x")), "old");
}

TEST_F(File, failing_writes_name_path_and_reason) {
  const std::string missing = path("no/x");
  EXPECT_EQ(file_error<SystemError>([&] { write_file_atomically(missing, ""); }),
            "cannot create '" + missing + "': No such file or directory");
  fs::create_directory(path("d"));
  EXPECT_EQ(file_error<SystemError>([&] { write_file_atomically(path("d"), ""); }),
            "cannot create '" + path("d") + "': Is a directory");
  EXPECT_EQ(files(), 1U);
}

// The limit of file size stands for a full disk: write(2) takes a part, then fails.
TEST_F(File, B110_a_write_that_stops_midway_leaves_the_old_file) {
  write_file_atomically(path("x"), "old");
  struct rlimit old {};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 10'000, old.rlim_max };
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error =
      file_error<SystemError>([&] { write_file_atomically(path("x"), std::string(20'000, 'n')); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, "cannot write '" + path("x") + "': File too large");
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(read_file(path("x")), "old");
}

TEST_F(File, what_is_no_readable_file_is_named) {
  const std::string missing = path("missing");
  const std::string no_file = "cannot open '" + missing + "': No such file or directory";
  EXPECT_EQ(file_error<DataError>([&] { InputFile file(missing); }), no_file);
  EXPECT_EQ(file_error<DataError>([&] { MappedFile file(missing); }), no_file);
  EXPECT_EQ(file_error<DataError>([&] { read_file(missing); }), no_file);
  const std::string directory = "'" + folder_ + "' is a directory, not a file";
  EXPECT_EQ(file_error<DataError>([&] { InputFile file(folder_); }), directory);
  EXPECT_EQ(file_error<DataError>([&] { read_file(folder_); }), directory);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(file_error<DataError>([&] { InputFile file(path("pipe")); }),
            "'" + path("pipe") + "' is not a regular file");
  write_file_atomically(path("big"), "12345");
  EXPECT_EQ(file_error<DataError>([&] { read_file(path("big"), 4); }), "'" + path("big") + "' is larger than 4 bytes");
  if (geteuid() != 0) {
    chmod(path("big").c_str(), 0);
    EXPECT_EQ(file_error<DataError>([&] { InputFile file(path("big")); }),
              "cannot open '" + path("big") + "': Permission denied");
  }
}

TEST_F(File, read_file_takes_pipes) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path("pipe")) << "from a pipe"; });
  EXPECT_EQ(read_file(path("pipe")), "from a pipe");
  writer.join();
}

TEST_F(File, mapped_bytes) {
  write_file_atomically(path("x"), "abc");
  MappedFile file(path("x"));
  ASSERT_EQ(file.bytes().size(), 3U);
  EXPECT_EQ(file.bytes()[2], std::byte{'c'});
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes()[0], std::byte{'a'});
  write_file_atomically(path("empty"), "");
  moved = MappedFile(path("empty"));
  EXPECT_TRUE(moved.bytes().empty());
}

TEST_F(File, a_file_that_shrinks_is_an_error_and_no_crash) {
  write_file_atomically(path("x"), std::string(100, 'x'));
  const InputFile file(path("x"));
  std::vector<std::byte> out(50);
  file.read(50, out);
  EXPECT_EQ(out[49], std::byte{'x'});
  fs::resize_file(path("x"), 70);
  file.read(20, out);
  EXPECT_EQ(
      file_error<DataError>([&] { file.read(50, out); }),
      "'" + path("x") + "' has shrunk while it was read: it had 100 bytes and now ends at 70, before 100; restore it");
}

}  // namespace
}  // namespace trireme::base
