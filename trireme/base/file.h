#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Files, with errors that name the path. Paths are UTF-8 or whatever the file system holds.
namespace trireme::base {

/// An open regular file. DataError if it is missing, a directory or other non-file, or unreadable.
class InputFile {
 public:
  explicit InputFile(std::string path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  /// Bytes when it was opened.
  uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }

  /// Fills `out` from `offset`. DataError if the file ends before, which happens when it shrinks after the opening.
  /// Callable from several threads.
  void read(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

/// A whole file mapped read-only; errors as InputFile, SystemError if it cannot be mapped. An empty file gives no
/// bytes. Touching the bytes of a file that has shrunk since kills the process (SIGBUS): for foreign files that may
/// change meanwhile use InputFile::read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  explicit MappedFile(InputFile file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const InputFile& file() const { return file_; }

 private:
  InputFile file_;
  std::span<const std::byte> bytes_;
};

/// The whole content, also of a pipe. DataError if it is missing, a directory, unreadable or larger than `limit` bytes.
std::string read_file(const std::string& path, uint64_t limit = uint64_t{1} << 30);

/// The same of a regular file only: a pipe in its place would be waited for without end.
std::string read_regular_file(const std::string& path);

/// A file that appears under its name only when it is complete: written beside it, synced and renamed by commit().
/// Without commit() nothing is left behind. SystemError with errno's words if anything fails.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

/// AtomicFile in one call.
void write_file_atomically(const std::string& path, std::string_view content);

}  // namespace trireme::base
