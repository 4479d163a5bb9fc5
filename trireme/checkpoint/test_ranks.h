#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <stdlib.h>
#include <unistd.h>

#include "trireme/checkpoint/save.h"
#include "trireme/checkpoint/tensor.h"

// For this folder's tests: ranks as threads that exchange strings through memory, and folders that vanish.
namespace trireme::checkpoint::test {

/// Runs body(rank, gather) on `ranks` threads; the text of each rank's exception, "" for none.
inline std::vector<std::string> on_ranks(int ranks, const std::function<void(int, const GatherStrings&)>& body) {
  std::vector<std::string> board(static_cast<size_t>(ranks)), errors(static_cast<size_t>(ranks));
  std::barrier<> meeting(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const GatherStrings gather = [&](const std::string& text) {
        board[static_cast<size_t>(rank)] = text;
        meeting.arrive_and_wait();
        std::vector<std::string> all = board;
        meeting.arrive_and_wait();
        return all;
      };
      try {
        body(rank, gather);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// A folder in memory where there is one (these tests sync often), else under the temporary folder; removed at the end.
class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = std::filesystem::is_directory(memory) && ::access(memory.c_str(), W_OK) == 0;
    std::string name =
        ((in_memory ? memory : std::filesystem::temp_directory_path()) / "trireme_checkpoint_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Every path below a folder, relative and sorted.
inline std::vector<std::string> listing(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    found.push_back(std::filesystem::relative(entry.path(), folder).string());
  std::sort(found.begin(), found.end());
  return found;
}

/// The float tensor of this shape with elements first, first + 1, …, in memory of the vector.
inline LocalTensor floats(const std::string& name, std::vector<int64_t> shape, std::vector<float>& memory,
                          float first = 0) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  memory.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = first + static_cast<float>(i);
  return {name, std::move(shape), base::DType::F32, {}, 0, count, reinterpret_cast<std::byte*>(memory.data())};
}

}  // namespace trireme::checkpoint::test
