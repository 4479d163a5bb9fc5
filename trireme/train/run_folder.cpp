#include "trireme/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/checkpoint/folders.h"

namespace trireme::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* written[] = {"config.json",  "metrics.jsonl",  "loss.svg",
                                   "summary.json", "checkpoints",    "checkpoints.partial",
                                   "export",       "export.partial", "sample.txt"};

[[noreturn]] void refuse(const std::string& what, const std::string& path, int error) {
  throw base::SystemError(what + " " + path + ": " + std::strerror(error));
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse("cannot make the run folder", path.string(), error.value());
  if (access(path.c_str(), W_OK | X_OK) != 0) refuse("cannot write into the run folder", path.string(), errno);
}

std::string first_free(const std::string& name) {
  make_folder("runs");
  for (int n = 1;; ++n) {
    const auto path = base::text_of("runs/", name, "-", n);
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    if (error && !fs::exists(path)) refuse("cannot make the run folder", path, error.value());
  }
}

// the step that a line belongs to; -1 for a line that is none
int64_t step_of_line(const std::string& line) {
  const auto json = base::Json::parse(line, nullptr, false);
  return json.is_object() && json.contains("step") && json["step"].is_number_integer() ? json["step"].get<int64_t>()
                                                                                       : -1;
}

// Two runs in one folder would take each other's files away.
std::shared_ptr<const int> lock_folder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) refuse("cannot open the run folder", path, errno);
  std::shared_ptr<const int> lock(new int(descriptor), [](const int* held) {
    close(*held);
    delete held;
  });
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw base::UsageError("the run folder " + path + " is in use by another process; wait for it, or name another");
  return lock;
}

// Nothing, or what a run wrote that failed before its first step.
bool holds_no_run(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto name = entry.path().filename();
    const bool empty_metrics = name == "metrics.jsonl" && entry.is_regular_file() && entry.file_size() == 0;
    if (!empty_metrics && name != "config.json") return false;
  }
  return !fs::exists(path / "config.json") || fs::exists(path / "metrics.jsonl");
}

}  // namespace

RunFolder open_run_folder(const RunFolderRequest& request) {
  if (request.resume && request.overwrite)
    throw base::UsageError("--resume and --overwrite exclude each other; give one");
  if (request.out.empty()) {
    if (request.resume) throw base::UsageError("--resume needs to know which run; name its folder with --out");
    const auto path = first_free(request.name);
    return {path, {}, lock_folder(path)};
  }
  const fs::path path(request.out);
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw base::UsageError("--out " + request.out + " is a file; name a folder");
  if (request.resume) {
    const auto newest = checkpoint::newest(request.out);
    if (!newest)
      throw base::UsageError("there is no checkpoint in " + request.out +
                             " to resume from; leave --resume out to start anew");
    auto lock = lock_folder(request.out);
    checkpoint::remove_leftovers(request.out);
    return {request.out, newest, std::move(lock)};
  }
  make_folder(path);
  auto lock = lock_folder(request.out);
  if (request.overwrite) {
    for (const char* name : written) {
      fs::remove_all(path / name, error);
      if (error) refuse("cannot remove", (path / name).string(), error.value());
    }
  } else if (!holds_no_run(path)) {
    throw base::UsageError(
        "--out " + request.out +
        " is not empty; use --resume to go on with it, --overwrite to start anew, or another folder");
  }
  return {request.out, {}, std::move(lock)};
}

MetricsFile::MetricsFile(const std::string& folder, int64_t kept_steps) : path_(folder + "/metrics.jsonl") {
  if (fs::exists(path_)) {
    std::ifstream before(path_);
    std::string kept;
    for (std::string line; std::getline(before, line) && !before.eof();) {
      const auto step = step_of_line(line);
      if (step >= 0 && step <= kept_steps) kept += line + "\n";
    }
    base::write_file_atomically(path_, kept);
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse("cannot open", path_, errno);
}

MetricsFile::~MetricsFile() {
  close(descriptor_);
}

void MetricsFile::write(const base::Json& line) {
  const auto text = line.dump() + "\n";
  const auto done = ::write(descriptor_, text.data(), text.size());
  if (done != static_cast<ssize_t>(text.size())) refuse("cannot write", path_, done < 0 ? errno : ENOSPC);
}

}  // namespace trireme::train
