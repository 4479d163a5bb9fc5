#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

// File operations whose order on the disk matters. All errors are SystemErrors that name the path and end in errno's
// words, but for remove_folder.
namespace trireme::checkpoint {

/// A new file, written front to back. Removed by the destructor unless close() was reached.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Returns when the bytes are on the disk.
  void close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// A folder and its missing parents.
void make_folder(const std::string& path);

/// Makes the names in the folder durable.
void sync_folder(const std::string& path);

/// Puts the finished folder `from` under the name `to` in one step. A folder that is there already changes places with
/// it and lies at `from` afterwards; on file systems that cannot exchange names it is moved aside first.
void commit_folder(const std::string& from, const std::string& to);

/// Removes a folder with all in it, if it exists. Never throws; warns in the log of what stays behind.
void remove_folder(const std::string& path);

/// "runs/a" for "runs/a//".
std::string without_final_slash(std::string folder);

/// The folder that holds a path, "." for a bare name.
std::string parent_of(const std::string& path);

}  // namespace trireme::checkpoint
