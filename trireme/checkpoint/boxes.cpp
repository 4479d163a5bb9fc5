#include "trireme/checkpoint/boxes.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::checkpoint {
namespace {

constexpr int64_t most_elements = int64_t{1} << 62;
constexpr size_t most_dimensions = 64;

std::string text_of_shape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string box_fault(const std::vector<int64_t>& shape, const Box& box) {
  if (box.begin.size() != shape.size() || box.end.size() != shape.size())
    return base::text_of("has a box of ", box.begin.size(), " and ", box.end.size(), " numbers in a tensor of ",
                         shape.size(), " dimensions");
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.begin[d] < 0 || box.end[d] < box.begin[d] || box.end[d] > shape[d])
      return base::text_of("has the box ", text_of(box), " outside the shape ", text_of_shape(shape));
  return "";
}

/// Elements of dimensions d and later.
int64_t volume_from(const Box& box, size_t d) {
  int64_t product = 1;
  for (; d < box.begin.size(); ++d) product *= box.end[d] - box.begin[d];
  return product;
}

// A range of a row-major box is: the rest of the row in which it starts, whole rows, the beginning of the row in which
// it ends, where a row is a slice of the first dimension and the two ends are ranges of smaller boxes.
void append_range(const Box& box, size_t d, Box fixed, int64_t begin, int64_t end, std::vector<Box>& parts) {
  if (begin >= end) return;
  if (begin == 0 && end == volume_from(box, d)) {
    parts.push_back(std::move(fixed));
    return;
  }
  const int64_t row = volume_from(box, d + 1);
  const auto slice = [&](int64_t first, int64_t last) {
    Box rows = fixed;
    rows.begin[d] = box.begin[d] + first;
    rows.end[d] = box.begin[d] + last;
    return rows;
  };
  int64_t first = begin / row, last = end / row;
  if (first == last) return append_range(box, d + 1, slice(first, first + 1), begin % row, end % row, parts);
  if (begin % row != 0) {
    append_range(box, d + 1, slice(first, first + 1), begin % row, row, parts);
    ++first;
  }
  if (first < last) parts.push_back(slice(first, last));
  if (end % row != 0) append_range(box, d + 1, slice(last, last + 1), 0, end % row, parts);
}

/// Where the element `index` of the region's memory lies.
int64_t offset_of(const Region& region, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d)
    offset = offset * (region.stored.end[d] - region.stored.begin[d]) + (index[d] - region.stored.begin[d]);
  return region.position + offset;
}

bool spans(const Box& outer, const Box& inner, size_t d) {
  return outer.begin[d] == inner.begin[d] && outer.end[d] == inner.end[d];
}

// Splits the space at a face of some box until every box covers its part of the space wholly or not at all.
std::optional<CoverageFault> fault_within(const Box& space, std::span<const Box> boxes, std::vector<size_t> present) {
  size_t best_dimension = 0;
  std::vector<int64_t> best_faces;
  for (size_t d = 0; d < space.begin.size(); ++d) {
    std::vector<int64_t> faces;
    for (const size_t i : present)
      for (const int64_t face : {boxes[i].begin[d], boxes[i].end[d]})
        if (space.begin[d] < face && face < space.end[d]) faces.push_back(face);
    std::sort(faces.begin(), faces.end());
    faces.erase(std::unique(faces.begin(), faces.end()), faces.end());
    if (faces.size() > best_faces.size()) {
      best_dimension = d;
      best_faces = std::move(faces);
    }
  }
  if (best_faces.empty()) {
    if (present.size() == 1) return std::nullopt;
    return CoverageFault{space, std::move(present)};
  }
  const int64_t cut = best_faces[best_faces.size() / 2];
  Box low = space, high = space;
  low.end[best_dimension] = cut;
  high.begin[best_dimension] = cut;
  for (const Box& half : {low, high}) {
    std::vector<size_t> inside;
    for (const size_t i : present)
      if (intersection(boxes[i], half)) inside.push_back(i);
    if (auto fault = fault_within(half, boxes, std::move(inside))) return fault;
  }
  return std::nullopt;
}

}  // namespace

int64_t volume(const Box& box) {
  return volume_from(box, 0);
}

Box whole(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

std::optional<std::string> boxes_fault(const std::vector<int64_t>& shape, const std::vector<Box>& boxes, int64_t begin,
                                       int64_t end) {
  if (shape.size() > most_dimensions) return base::text_of("has ", shape.size(), " dimensions, more than 64");
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0) return "has the negative shape " + text_of_shape(shape);
    // a zero behind huge sizes must not hide their overflow in a box
    const int64_t factor = std::max<int64_t>(size, 1);
    if (elements > most_elements / factor) return "has more than 2^62 elements in the shape " + text_of_shape(shape);
    elements *= factor;
  }
  int64_t total = boxes.empty() ? volume(whole(shape)) : 0;
  for (const Box& box : boxes) {
    const std::string fault = box_fault(shape, box);
    if (!fault.empty()) return fault;
    total += volume(box);
    if (total > most_elements) return "has more than 2^62 elements in its boxes";
  }
  if (begin < 0 || end < begin || end > total)
    return base::text_of("has the range [", begin, ", ", end, ") of ", total, " elements");
  return std::nullopt;
}

std::vector<Region> regions_of(const std::vector<int64_t>& shape, const std::vector<Box>& boxes, int64_t begin,
                               int64_t end) {
  const std::vector<Box> all = boxes.empty() ? std::vector<Box>{whole(shape)} : boxes;
  std::vector<Region> regions;
  int64_t passed = 0;  // elements of the boxes before
  for (const Box& box : all) {
    const int64_t size = volume(box);
    std::vector<Box> parts;
    append_range(box, 0, box, std::clamp<int64_t>(begin - passed, 0, size), std::clamp<int64_t>(end - passed, 0, size),
                 parts);
    for (Box& part : parts) regions.push_back({std::move(part), box, passed - begin});
    passed += size;
  }
  return regions;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common = a;
  for (size_t d = 0; d < a.begin.size(); ++d) {
    common.begin[d] = std::max(a.begin[d], b.begin[d]);
    common.end[d] = std::min(a.end[d], b.end[d]);
    if (common.begin[d] >= common.end[d]) return std::nullopt;
  }
  return common;
}

void copy_common(const Region& source, const std::byte* from, const Region& target, std::byte* to,
                 size_t element_size) {
  const std::optional<Box> common = intersection(source.part, target.part);
  if (!common) return;
  // dimensions from `inner` on are contiguous on both sides: one memcpy
  size_t inner = common->begin.size();
  while (inner > 0) {
    --inner;
    if (!spans(source.stored, *common, inner) || !spans(target.stored, *common, inner)) break;
  }
  const size_t bytes = static_cast<size_t>(volume_from(*common, inner)) * element_size;
  std::vector<int64_t> index = common->begin;
  while (true) {
    std::memcpy(to + offset_of(target, index) * static_cast<int64_t>(element_size),
                from + offset_of(source, index) * static_cast<int64_t>(element_size), bytes);
    size_t d = inner;
    while (d > 0 && ++index[d - 1] == common->end[d - 1]) {
      index[d - 1] = common->begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

std::string text_of(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.begin.size(); ++d) text += base::text_of(d ? ", " : "", box.begin[d], ":", box.end[d]);
  return text + "]";
}

std::optional<CoverageFault> coverage_fault(const std::vector<int64_t>& shape, std::span<const Box> boxes) {
  const Box space = whole(shape);
  if (volume(space) == 0) return std::nullopt;
  std::vector<size_t> present(boxes.size());
  for (size_t i = 0; i < present.size(); ++i) present[i] = i;
  return fault_within(space, boxes, std::move(present));
}

}  // namespace trireme::checkpoint
