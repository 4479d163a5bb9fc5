#include "trireme/checkpoint/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/log.h"

namespace trireme::checkpoint {
namespace {

// large enough that system calls cost nothing, small enough that a signal is answered soon
constexpr size_t write_bytes = size_t{64} << 20;

[[noreturn]] void fail(const char* what, const std::string& path, int error = errno) {
  throw base::SystemError(base::text_of("cannot ", what, " ", path, ": ", std::strerror(error)));
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create", path_);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(path_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), write_bytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_);
    if (written == 0) fail("write", path_, ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::close() {
  if (::fsync(descriptor_) != 0) fail("sync", path_);
  const int descriptor = descriptor_;
  // some file systems report a full disk or quota only here
  if (::close(descriptor) != 0) {
    const int error = errno;
    descriptor_ = -1;
    ::unlink(path_.c_str());
    fail("close", path_, error);
  }
  descriptor_ = -1;
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("create the folder", path, error.value());
}

void sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open the folder", path);
  // EINVAL: the file system keeps its folders in order by itself
  const int error = ::fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
  ::close(descriptor);
  if (error != 0) fail("sync the folder", path, error);
}

void commit_folder(const std::string& from, const std::string& to) {
  // a plain rename never replaces a folder that holds files
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail("rename to", to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail("replace", to);
  const std::string aside = from + ".replaced";
  if (::rename(to.c_str(), aside.c_str()) != 0) fail("move aside", to);
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    ::rename(aside.c_str(), to.c_str());
    fail("rename to", to, error);
  }
  if (::rename(aside.c_str(), from.c_str()) != 0) fail("move aside", aside);
}

void remove_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) base::log_warning("cannot remove ", path, ": ", error.message());
}

std::string without_final_slash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace trireme::checkpoint
