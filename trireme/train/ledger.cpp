#include "trireme/train/ledger.h"

#include <cmath>

#include "trireme/base/error.h"

namespace trireme::train {

double ScaleLedger::product() const {
  double product = 1;
  for (const auto& entry : entries) product *= entry.factor;
  return product;
}

std::string ScaleLedger::text() const {
  std::string text;
  for (const auto& entry : entries) text += base::text_of(text.empty() ? "" : ", ", entry.name, " ", entry.factor);
  return text;
}

double nominal_items(int64_t items) {
  return items <= 1 ? 1.0 : std::exp2(std::round(std::log2(static_cast<double>(items))));
}

double backward_scale(const ScaleInputs& inputs) {
  return inputs.loss_scale / inputs.nominal;
}

double optimizer_scale(const ScaleInputs& inputs) {
  return inputs.nominal * inputs.ranks / (inputs.loss_scale * inputs.global_count);
}

ScaleLedger ledger_of(const ScaleInputs& inputs) {
  return {{{"loss_scale / nominal", backward_scale(inputs)},
           {"average over ranks", 1.0 / inputs.ranks},
           {"optimizer", optimizer_scale(inputs)}}};
}

void check_probe(double scaled_gradient, const ScaleInputs& inputs) {
  const auto ledger = ledger_of(inputs);
  // the probe's gradient is a fp32 sum of a few counts
  TRIREME_CHECK(std::abs(scaled_gradient - 1) < 1e-5, "the probe's gradient is ", scaled_gradient, ", not 1; ",
                ledger.text(), "; product times count ", ledger.product() * inputs.global_count);
}

}  // namespace trireme::train
