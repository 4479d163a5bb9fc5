#pragma once

#include <cstdint>
#include <string>

#include "trireme/train/trainer.h"

namespace trireme::train {

/// What a person sees of a running training, on standard output: one line every `every` steps, or on a terminal a line
/// that is redrawn, with rate and time left. One rank holds it.
class Progress {
 public:
  /// `columns` of the terminal, 0: none. `every` 0: only the last step.
  Progress(int64_t first_step, int64_t last_step, int64_t every, int columns);

  void step(const StepResult& result, double tokens_per_second, double seconds);
  /// A line among the others ("validation loss …").
  void line(const std::string& text);

 private:
  void clear();
  void draw(const StepResult& result, double tokens_per_second);

  int64_t first_, last_, every_;
  int columns_;
  double seconds_ = 0;  // of all steps so far
  int64_t steps_ = 0;
  bool drawn_ = false;
};

}  // namespace trireme::train
