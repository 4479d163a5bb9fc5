#include "trireme/train/progress.h"

#include <algorithm>
#include <cstdio>

#include "trireme/base/units.h"

namespace trireme::train {

Progress::Progress(int64_t first_step, int64_t last_step, int64_t every, int columns)
    : first_(first_step), last_(last_step), every_(every), columns_(columns) {}

void Progress::clear() {
  if (drawn_) std::printf("\r\033[K");
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  clear();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Progress::step(const StepResult& result, double tokens_per_second, double seconds) {
  seconds_ += seconds;
  ++steps_;
  const bool due = result.step == last_ || result.step == first_ + 1 || (every_ > 0 && result.step % every_ == 0);
  if (due) {
    char text[200];
    std::snprintf(text, sizeof text, "step %lld/%lld  loss %.4f  norm %.3f  lr %.3g  %.0f items/s  %.0f ms",
                  static_cast<long long>(result.step), static_cast<long long>(last_), result.loss, result.grad_norm,
                  result.learning_rate, tokens_per_second, seconds * 1e3);
    line(text);
  }
  if (columns_ > 0) draw(result, tokens_per_second);
}

void Progress::draw(const StepResult& result, double tokens_per_second) {
  const auto done =
      static_cast<double>(result.step - first_) / static_cast<double>(std::max<int64_t>(1, last_ - first_));
  const auto left = seconds_ / static_cast<double>(steps_) * static_cast<double>(last_ - result.step);
  char tail[120];
  const int length = std::snprintf(tail, sizeof tail, " %lld/%lld  loss %.3f  %.0f items/s  %s left",
                                   static_cast<long long>(result.step), static_cast<long long>(last_), result.loss,
                                   tokens_per_second, base::format_duration(left).c_str());
  const int width = std::clamp(columns_ - length - 3, 0, 40);
  const int filled = static_cast<int>(done * width);
  std::printf("\r\033[K[%s%s]%s", std::string(filled, '=').c_str(), std::string(width - filled, ' ').c_str(), tail);
  std::fflush(stdout);
  drawn_ = true;
}

}  // namespace trireme::train
