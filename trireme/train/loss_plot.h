#pragma once

#include <string>
#include <vector>

namespace trireme::train {

struct LossPoint {
  double step = 0;
  double loss = 0;
};

/// An SVG picture of the training loss over the steps, and of the validation loss as dots where there is one. Long runs
/// are thinned to about a thousand points, each the mean of its neighbours.
std::string loss_plot(const std::string& title, const std::vector<LossPoint>& training,
                      const std::vector<LossPoint>& validation);

}  // namespace trireme::train
