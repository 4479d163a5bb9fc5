#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The one rule of gradient scale. A loss is a SUM over items and a COUNT. Backward runs on sum * loss_scale / nominal;
// data ranks average; the optimizer multiplies once by nominal * ranks / (loss_scale * global count). So a gradient is
// the mean over all items of the global batch, however they are spread over ranks and micro-batches.
namespace trireme::train {

/// Everything that scales a gradient between the loss and the update, by name.
struct ScaleLedger {
  struct Entry {
    std::string name;
    double factor;
  };
  std::vector<Entry> entries;

  double product() const;
  std::string text() const;  // "loss / nominal 0.000977, average over ranks 0.5, optimizer 2"
};

/// items rounded to the nearest power of two, so that dividing by it rounds nothing; at least 1.
double nominal_items(int64_t items);

struct ScaleInputs {
  double nominal = 1;
  double loss_scale = 1;
  int ranks = 1;            // over which the gradient is averaged
  double global_count = 0;  // items of the whole step
};

/// What multiplies the loss sum before backward.
double backward_scale(const ScaleInputs& inputs);

/// What the optimizer multiplies the averaged gradient by.
double optimizer_scale(const ScaleInputs& inputs);

/// The factors of a step; their product times the global count is 1.
ScaleLedger ledger_of(const ScaleInputs& inputs);

/// A debug step carries a probe: a parameter whose loss is its value times the count, slope 1 an item. Throws
/// base::InternalError with the ledger if its gradient, scaled for the update, is not exactly 1 within rounding.
void check_probe(double scaled_gradient, const ScaleInputs& inputs);

}  // namespace trireme::train
