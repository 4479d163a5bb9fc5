#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/checkpoint/tensor.h"

// Arithmetic of boxes. A region is a box whose elements lie at known places of a piece of memory, so that a range of a
// concatenation of boxes is a short list of regions and copying between any two layouts is copying their intersections.
namespace trireme::checkpoint {

/// The box `part` (global indices) of a larger box that is stored row-major from element `position` on. `position` is
/// negative where a piece of memory starts in the middle of the box.
struct Region {
  Box part;
  Box stored;
  int64_t position = 0;
};

/// Elements of a box, 1 for no dimensions. Only for boxes that passed boxes_fault.
int64_t volume(const Box& box);

/// The box of a whole tensor.
Box whole(const std::vector<int64_t>& shape);

/// What is wrong with boxes and range for a tensor of this shape, as the end of a sentence; nothing if all is well.
/// Wrong: more than 64 dimensions, negative sizes, more than 2^62 elements, a box that sticks out, a range that is not
/// inside the boxes.
std::optional<std::string> boxes_fault(const std::vector<int64_t>& shape, const std::vector<Box>& boxes, int64_t begin,
                                       int64_t end);

/// Elements [begin, end) of the concatenation of `boxes` (none: all of `shape`) as regions of a memory that holds
/// exactly that range. At most 2 x dimensions - 1 regions for each box that the range cuts, one for the others.
std::vector<Region> regions_of(const std::vector<int64_t>& shape, const std::vector<Box>& boxes, int64_t begin,
                               int64_t end);

/// The common part of two boxes; nothing if it is empty.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Copies the elements that both regions hold. `from` and `to` point at their memories' first elements.
void copy_common(const Region& source, const std::byte* from, const Region& target, std::byte* to, size_t element_size);

/// "[0:2, 3:5]"
std::string text_of(const Box& box);

/// A part of `shape` that the boxes do not cover, or cover several times.
struct CoverageFault {
  Box where;
  std::vector<size_t> covered_by;  ///< indices of the boxes; empty for a gap
};

/// Nothing if each element of the shape lies in exactly one of the (non-empty) boxes.
std::optional<CoverageFault> coverage_fault(const std::vector<int64_t>& shape, std::span<const Box> boxes);

}  // namespace trireme::checkpoint
