// NAME_fuzz CORPUS [SECONDS]
//
// Runs the fuzz target that it is linked with, `extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t)` in a
// file NAME_fuzz.cpp, on every file of the folder CORPUS, then for SECONDS on mutations of them. An input that reaches
// code not reached before joins the corpus in memory. libFuzzer would do the same, but comes with clang alone.
//
// A target fails by a sanitizer's report, by an exception that escapes, or by taking 10 s. The input of that moment is
// then left in the file NAME_fuzz.input of the current folder: keep it in the corpus once the fault is mended.
// Coverage needs TRIREME_SANITIZE=fuzz; any other build only mutates blindly.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {
constexpr size_t kLongestInput = 1 << 16;

uint8_t reached[1 << 16];
uintptr_t previous_block = 0;
size_t new_edges = 0;
}  // namespace

// GCC calls this at the start of every basic block (-fsanitize-coverage=trace-pc).
extern "C" void __sanitizer_cov_trace_pc() {
  const auto block = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& edge = reached[(block ^ (previous_block >> 1)) % sizeof(reached)];
  previous_block = block;
  new_edges += edge == 0;
  edge = 1;
}

namespace {
using Input = std::vector<uint8_t>;
using Random = std::mt19937_64;

size_t below(Random& random, size_t bound) {
  return bound == 0 ? 0 : random() % bound;
}

// One to eight small changes: bits, bytes, numbers at the edges of their types, blocks moved, removed, taken from
// another.
Input mutate(Input input, const std::vector<Input>& corpus, Random& random) {
  static constexpr int64_t kEdges[] = {0, 1, -1, 127, 128, 255, 256, 65535, 1 << 16, INT32_MAX, INT32_MIN, INT64_MAX};
  static constexpr char kMarks[] = "{}[]\":,-+.eE0123456789 \\/\n";
  for (size_t left = 1 + below(random, 8); left > 0; --left) {
    const size_t at = below(random, input.size() + 1);
    const size_t length = std::min(below(random, 16) + 1, input.size() - at);
    switch (below(random, 7)) {
      case 0:
        if (at < input.size()) input[at] ^= uint8_t(1) << below(random, 8);
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<uint8_t>(random());
        break;
      case 2: {
        const int64_t value = kEdges[below(random, std::size(kEdges))];
        const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
        std::copy_n(bytes, std::min<size_t>(size_t(1) << below(random, 4), input.size() - at), input.begin() + at);
        break;
      }
      case 3:
        input.insert(input.begin() + at, kMarks[below(random, sizeof(kMarks) - 1)]);
        break;
      case 4:
        input.erase(input.begin() + at, input.begin() + at + length);
        break;
      case 5: {
        const Input block(input.begin() + at, input.begin() + at + length);
        input.insert(input.begin() + below(random, input.size() + 1), block.begin(), block.end());
        break;
      }
      case 6: {
        const Input& other = corpus[below(random, corpus.size())];
        const size_t from = below(random, other.size() + 1);
        input.resize(at);
        input.insert(input.end(), other.begin() + from, other.end());
        break;
      }
    }
  }
  input.resize(std::min(input.size(), kLongestInput));
  return input;
}

// The file that shows the input of a target that died: written through a mapping, so that a crash loses nothing.
class LastInput {
 public:
  explicit LastInput(std::string path) : path_(std::move(path)) {
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd_ < 0 || ftruncate(fd_, kLongestInput) != 0) fail();
    bytes_ = mmap(nullptr, kLongestInput, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (bytes_ == MAP_FAILED) fail();
  }
  ~LastInput() { unlink(path_.c_str()); }

  void show(const Input& input) {
    // first: pages behind the file's end cannot be written
    if (ftruncate(fd_, static_cast<off_t>(std::max<size_t>(input.size(), 1))) != 0) fail();
    std::copy(input.begin(), input.end(), static_cast<uint8_t*>(bytes_));
  }

 private:
  [[noreturn]] void fail() const {
    std::perror(path_.c_str());
    std::exit(2);
  }

  std::string path_;
  int fd_ = -1;
  void* bytes_ = nullptr;
};

void run(const Input& input, LastInput& last) {
  last.show(input);
  alarm(10);
  previous_block = 0;
  // a copy of its own, so that reading one byte past the end is seen
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<Input> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (corpus.back().size() > kLongestInput) corpus.back().resize(kLongestInput);
  }
  return corpus;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: " << argv[0] << " CORPUS [SECONDS]\n";
    return 2;
  }
  const std::string name = std::filesystem::path(argv[0]).filename();
  std::vector<Input> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::cerr << name << ": the corpus " << argv[1] << " is empty\n";
    return 2;
  }
  const size_t kept = corpus.size();
  LastInput last(name + ".input");
  for (const Input& input : corpus) run(input, last);

  const uint64_t seed = std::random_device()();
  Random random(seed);
  uint64_t runs = kept;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(argc == 3 ? std::atoi(argv[2]) : 0);
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    Input input = mutate(corpus[below(random, corpus.size())], corpus, random);
    new_edges = 0;
    run(input, last);
    if (new_edges > 0) corpus.push_back(std::move(input));
  }
  alarm(0);
  std::cout << name << ": " << runs << " runs, " << kept << " inputs kept, " << corpus.size() - kept << " found, "
            << std::count(std::begin(reached), std::end(reached), 1) << " edges, seed " << seed << "\n";
}
