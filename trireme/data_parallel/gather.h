#pragma once

#include <vector>

#include "trireme/comm/group.h"
#include "trireme/layers/flat_layout.h"
#include "trireme/layers/model.h"

// ZeRO-3: parameters are whole only while a layer runs.
namespace trireme::data_parallel {

/// Keeps of every bucket (a whole number of layers) this rank's share. A gathered bucket's storage points at memory
/// that holds the whole; a released one throws "layer 'h.3' is not gathered" at every access. Parameters and everything
/// that autograd saved of them follow, since they share the bucket's storage. Calls nest: a bucket is released when as
/// many releases as gathers were made. All ranks gather the same layers in the same order.
class GatheredParameters {
 public:
  /// The parameters hold whole values now; `layout` was made with whole_layers for the group.
  GatheredParameters(const layers::Model& model, const layers::FlatLayout& layout, comm::Group group);

  void gather(int layer);
  void release(int layer);

  /// The layers one after the other, each gathered for its forward, and again for its backward, which releases it when
  /// its inputs' gradients are there; what is left when backward ends is released by release_all().
  layers::Tensors forward(layers::Model& model, layers::Tensors inputs);
  void release_all();

  /// This rank's share of a bucket, [share].
  const at::Tensor& shard(int space, int bucket) const { return shards_[space][bucket]; }

 private:
  struct Unit {
    int space = 0, bucket = 0;
    at::Tensor whole;  // its storage is what the parameters lie in
    int users = 0;
    std::string names;  // of its layers
  };
  void fill(Unit& unit);
  void empty(Unit& unit);

  layers::FlatLayout layout_;
  comm::Group group_;
  std::vector<Unit> units_;
  std::vector<std::vector<int>> units_of_layer_;
  std::vector<std::vector<at::Tensor>> shards_;  // [space][bucket]
};

}  // namespace trireme::data_parallel
