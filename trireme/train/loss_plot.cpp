#include "trireme/train/loss_plot.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace trireme::train {
namespace {

constexpr double width = 800, height = 440, left = 60, right = 20, top = 40, bottom = 45;

std::vector<LossPoint> thinned(const std::vector<LossPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<LossPoint> means;
  for (size_t i = 0; i < most; ++i) {
    const size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    LossPoint mean;
    for (size_t j = begin; j < end; ++j) {
      mean.step += points[j].step / static_cast<double>(end - begin);
      mean.loss += points[j].loss / static_cast<double>(end - begin);
    }
    means.push_back(mean);
  }
  return means;
}

// 1, 2 or 5 times a power of ten, about `count` of them in the range
double tick_distance(double range, double count) {
  const double raw = std::max(range, 1e-12) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string loss_plot(const std::string& title, const std::vector<LossPoint>& training,
                      const std::vector<LossPoint>& validation) {
  double last = 1, low = 1e300, high = -1e300;
  for (const auto* points : {&training, &validation})
    for (const auto& point : *points) {
      last = std::max(last, point.step);
      low = std::min(low, point.loss);
      high = std::max(high, point.loss);
    }
  if (low > high) low = 0, high = 1;
  if (high - low < 1e-9) low -= 0.5, high += 0.5;
  const auto x = [&](double step) { return left + step / last * (width - left - right); };
  const auto y = [&](double loss) { return height - bottom - (loss - low) / (high - low) * (height - top - bottom); };

  std::ostringstream svg;
  svg << std::setprecision(6) << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text x=\"" << left << "\" y=\"22\" font-size=\"15\">" << escaped(title) << "</text>\n";
  for (double tick = std::ceil(low / tick_distance(high - low, 6)) * tick_distance(high - low, 6); tick <= high;
       tick += tick_distance(high - low, 6))
    svg << "<line x1=\"" << left << "\" x2=\"" << width - right << "\" y1=\"" << y(tick) << "\" y2=\"" << y(tick)
        << "\" stroke=\"#ddd\"/><text x=\"" << left - 6 << "\" y=\"" << y(tick) + 4 << "\" text-anchor=\"end\">" << tick
        << "</text>\n";
  for (double tick = 0; tick <= last; tick += tick_distance(last, 8))
    svg << "<text x=\"" << x(tick) << "\" y=\"" << height - bottom + 18 << "\" text-anchor=\"middle\">" << tick
        << "</text>\n";
  svg << "<text x=\"" << (left + width - right) / 2 << "\" y=\"" << height - 8
      << "\" text-anchor=\"middle\">optimizer step</text>\n";

  svg << "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.5\" points=\"";
  for (const auto& point : thinned(training, 1000)) svg << x(point.step) << "," << y(point.loss) << " ";
  svg << "\"/>\n";
  for (const auto& point : validation)
    svg << "<circle cx=\"" << x(point.step) << "\" cy=\"" << y(point.loss) << "\" r=\"4\" fill=\"#d62728\"/>\n";
  svg << "<text x=\"" << width - right
      << "\" y=\"22\" text-anchor=\"end\"><tspan fill=\"#1f77b4\">training loss</tspan>"
      << (validation.empty() ? "" : " <tspan fill=\"#d62728\">validation loss</tspan>") << "</text>\n</svg>\n";
  return svg.str();
}

}  // namespace trireme::train
