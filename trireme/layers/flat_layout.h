#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

// Where each parameter lies in flat storage: arithmetic only, equal on every rank.
//
// There is one index space for each (dtype, trainable, gradient group). In a space the parameters lie in reverse
// registration order (about the order in which backward finishes their gradients), each on a multiple of 64 bytes. The
// space is cut into buckets, and a bucket into as many equal shares of whole pages as the group has ranks: share r of
// every bucket belongs to rank r. Gradients, masters and optimizer state are ranges of the same index space. Nothing is
// moved later; padding belongs to no parameter and stays zero.
namespace trireme::layers {

struct FlatParameter {
  std::string name;
  int64_t elements = 0;
  at::ScalarType dtype = at::kFloat;
  bool trainable = true;
  int group = 0;  // gradient group: parameters that are averaged over the same ranks
  int layer = 0;
};

struct FlatOptions {
  int ranks = 1;                // of the group that shares a bucket
  int64_t bucket_elements = 0;  // a bucket is closed once it holds this many; 0: one bucket a space
  bool whole_layers = false;    // ZeRO-3: a bucket is a whole number of layers
  int64_t page_bytes = 4096;
};

/// Elements [begin, end) of a space, padding included.
struct FlatBucket {
  int64_t begin = 0, end = 0;
  std::vector<int> parameters;  // indices into the given list, in the order in which they lie
  int64_t share(int ranks) const { return (end - begin) / ranks; }
};

struct FlatSpace {
  at::ScalarType dtype = at::kFloat;
  bool trainable = true;
  int group = 0;
  int64_t size = 0;  // elements, padding included
  std::vector<FlatBucket> buckets;
};

struct FlatSlot {
  int space = 0, bucket = 0;
  int64_t begin = 0;  // first element in the space
};

struct FlatLayout {
  std::vector<FlatSpace> spaces;
  std::vector<FlatSlot> slots;  // of each parameter, by its index in the given list
};

FlatLayout flat_layout(const std::vector<FlatParameter>& parameters, const FlatOptions& options);

/// The bucket size that cuts the trainable parameters into at least `count` buckets, so that the first can be reduced
/// long before backward ends; one page at the least.
int64_t bucket_elements_for(const std::vector<FlatParameter>& parameters, int ranks, int count = 8);

}  // namespace trireme::layers
