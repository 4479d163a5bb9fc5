#include "trireme/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::base {
namespace {

// Linux moves at most 2 GiB a call
constexpr size_t kMaxTransfer = size_t{1} << 30;

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

std::string shown_path(const std::string& path) {
  return base::quoted(path, 4096);
}

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw SystemError(text_of("cannot examine ", shown_path(path), ": ", errno_text(errno)));
  return status;
}

/// Bytes read, less than asked for only at the end of the file.
template <class Read>
size_t read_fully(const std::string& path, std::span<std::byte> out, Read read_some) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = read_some(out.data() + done, std::min(out.size() - done, kMaxTransfer), done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw DataError(text_of("cannot read ", shown_path(path), ": ", errno_text(errno)));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

int open_for_reading(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) throw DataError(text_of("cannot open ", shown_path(path), ": ", errno_text(errno)));
  return descriptor;
}

struct Closer {
  int descriptor;
  ~Closer() { ::close(descriptor); }
};

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: the opening of a pipe without a writer would wait for one
  descriptor_ = open_for_reading(path_, O_NONBLOCK);
  try {
    const struct stat status = status_of(descriptor_, path_);
    if (S_ISDIR(status.st_mode)) throw DataError(text_of(shown_path(path_), " is a directory, not a file"));
    if (!S_ISREG(status.st_mode)) throw DataError(text_of(shown_path(path_), " is not a regular file"));
    size_ = static_cast<uint64_t>(status.st_size);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(uint64_t offset, std::span<std::byte> out) const {
  const size_t done = read_fully(path_, out, [&](std::byte* to, size_t count, size_t before) {
    return ::pread(descriptor_, to, count, static_cast<off_t>(offset + before));
  });
  if (done < out.size())
    throw DataError(
        text_of(shown_path(path_), " has shrunk while it was read: it had ", size_, " bytes and now ends at ",
                std::min<uint64_t>(offset + done, static_cast<uint64_t>(status_of(descriptor_, path_).st_size)),
                ", before ", offset + out.size(), "; restore it"));
}

MappedFile::MappedFile(const std::string& path) : MappedFile(InputFile(path)) {}

MappedFile::MappedFile(InputFile file) : file_(std::move(file)) {
  if (file_.size() == 0) return;
  void* address = ::mmap(nullptr, file_.size(), PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (address == MAP_FAILED)
    throw SystemError(
        text_of("cannot map the ", file_.size(), " bytes of ", shown_path(file_.path()), ": ", errno_text(errno)));
  bytes_ = {static_cast<const std::byte*>(address), file_.size()};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_file(const std::string& path, uint64_t limit) {
  const Closer file{open_for_reading(path, 0)};
  if (S_ISDIR(status_of(file.descriptor, path).st_mode))
    throw DataError(text_of(shown_path(path), " is a directory, not a file"));
  std::string content;
  while (true) {
    const size_t before = content.size();
    content.resize(before + std::clamp<size_t>(before, 1 << 14, 1 << 24));
    const size_t count = read_fully(path, std::as_writable_bytes(std::span(content).subspan(before)),
                                    [&](std::byte* to, size_t n, size_t) { return ::read(file.descriptor, to, n); });
    content.resize(before + count);
    if (content.size() > limit) throw DataError(text_of(shown_path(path), " is larger than ", limit, " bytes"));
    if (count == 0) return content;
  }
}

std::string read_regular_file(const std::string& path) {
  const InputFile regular(path);
  return read_file(path);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  static std::atomic<uint64_t> counter{0};
  do {
    // a name that a killed process with our id may have left behind is passed over
    temporary_ = text_of(path_, ".tmp-", ::getpid(), "-", counter++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw SystemError(text_of("cannot create ", shown_path(path_), ": ", errno_text(errno)));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TRIREME_CHECK(descriptor_ >= 0, path_, " is committed");
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw SystemError(text_of("cannot write ", shown_path(path_), ": ", errno_text(errno)));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  TRIREME_CHECK(descriptor_ >= 0, path_, " is committed");
  const auto fail = [&](const char* what, int error) {
    throw SystemError(text_of("cannot ", what, " ", shown_path(path_), ": ", errno_text(error)));
  };
  if (::fsync(descriptor_) != 0) fail("write", errno);
  // some file systems report a full disk only here
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("create", errno);
  temporary_.clear();

  // the rename itself survives a crash only when the folder is synced, too
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int folder_descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // a folder that we may write but not read cannot be synced
  if (folder_descriptor < 0) return;
  const Closer closer{folder_descriptor};
  if (::fsync(folder_descriptor) != 0 && errno != EINVAL) fail("sync the folder of", errno);
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace trireme::base
