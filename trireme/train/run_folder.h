#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trireme/base/json.h"

// The folder of a run:
//   config.json     resolved, can be run again      metrics.jsonl   one line an optimizer step or evaluation
//   loss.svg        the loss over the steps         summary.json    written at the end
//   checkpoints/    committed ones only             export/         Hugging Face's form, written at the end
namespace trireme::train {

struct RunFolderRequest {
  std::string out;   // empty: runs/<name>-<n>, the first n that is free
  std::string name;  // of the configuration
  bool resume = false;
  bool overwrite = false;
};

struct RunFolder {
  std::string path;
  std::optional<std::string> checkpoint;  // to go on from
  std::shared_ptr<const int> lock;        // held while it lives, by the rank that opened the folder
};

/// Makes or opens the folder and locks it; one rank calls it. Throws base::UsageError for a folder that another process
/// has locked, for one that holds files already without resume or overwrite (what a run left that failed before its
/// first step does not count) and for a resume without a checkpoint, base::SystemError where it cannot be written.
/// Overwriting removes what a run writes and nothing else.
RunFolder open_run_folder(const RunFolderRequest& request);

/// metrics.jsonl, appended line by line. One rank holds it.
class MetricsFile {
 public:
  /// Keeps the lines of steps up to `kept_steps` of an earlier run and drops the rest (and a torn last line).
  MetricsFile(const std::string& folder, int64_t kept_steps);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Throws base::SystemError.
  void write(const base::Json& line);

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace trireme::train
