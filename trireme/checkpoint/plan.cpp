#include "trireme/checkpoint/plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/checkpoint/boxes.h"

namespace trireme::checkpoint {
namespace {

using base::text_of;
using base::UsageError;

/// The same part of a tensor, offered by several ranks.
struct Replicas {
  size_t tensor = 0;
  int64_t begin = 0, end = 0;
  size_t element_size = 0;
  std::vector<std::pair<size_t, size_t>> holders;  // (rank, number of the offer)
};

using Part = std::tuple<size_t, std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>, int64_t, int64_t>;

Part part_of(size_t tensor, const LocalTensor& offer) {
  Part part{tensor, {}, offer.begin, offer.end};
  for (const Box& box : offer.boxes) std::get<1>(part).emplace_back(box.begin, box.end);
  return part;
}

std::string described(const TensorInfo& info) {
  std::string shape;
  for (const int64_t size : info.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  return text_of(base::name_of(info.dtype), " [", shape, "]");
}

/// Where share number `index` of `count` equal shares of `total` bytes begins.
int64_t share_begin(int64_t total, size_t index, size_t count) {
  const auto i = static_cast<int64_t>(index), n = static_cast<int64_t>(count);
  return total / n * i + total % n * i / n;
}

/// Cuts what the same ranks hold into equal shares: elements belong to the share in which their first byte lies.
void distribute(const std::vector<Replicas>& line, Plan& plan) {
  int64_t total = 0;
  for (const Replicas& part : line) total += (part.end - part.begin) * static_cast<int64_t>(part.element_size);
  int64_t position = 0;
  for (const Replicas& part : line) {
    const auto size = static_cast<int64_t>(part.element_size);
    const auto first_from = [&](int64_t byte) {
      return std::clamp<int64_t>((byte - position + size - 1) / size, 0, part.end - part.begin);
    };
    for (size_t share = 0; share < part.holders.size(); ++share) {
      const int64_t begin = first_from(std::max(position, share_begin(total, share, part.holders.size())));
      const int64_t end = first_from(std::max(position, share_begin(total, share + 1, part.holders.size())));
      const auto [rank, offer] = part.holders[share];
      const int64_t longest = most_piece_bytes / size;
      for (int64_t from = begin; from < end; from += longest)
        plan.ranks[rank].push_back({part.tensor, offer, part.begin + from, part.begin + std::min(end, from + longest)});
    }
    position += (part.end - part.begin) * size;
  }
}

void check_plan(const Plan& plan, const std::vector<std::vector<LocalTensor>>& offers) {
  Manifest manifest;
  for (const TensorInfo& info : plan.tensors) manifest.tensors.push_back({info, {}});
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    for (const PlannedPiece& piece : plan.ranks[rank])
      manifest.tensors[piece.tensor].pieces.push_back(
          {offers[rank][piece.offer].boxes, piece.begin, piece.end, text_of("rank ", rank), 0, 0});
  try {
    check_coverage(manifest, "the tensors to save");
  } catch (const base::DataError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

Plan plan_save(const std::vector<std::vector<LocalTensor>>& offers) {
  Plan plan;
  plan.ranks.resize(offers.size());
  std::unordered_map<std::string, std::pair<size_t, size_t>> tensors;  // name -> (index, rank that offered it first)
  std::map<Part, size_t> parts;
  std::vector<Replicas> replicas;
  for (size_t rank = 0; rank < offers.size(); ++rank)
    for (size_t i = 0; i < offers[rank].size(); ++i) {
      const LocalTensor& offer = offers[rank][i];
      const TensorInfo info{offer.name, offer.global_shape, offer.dtype};
      const std::string subject = text_of("rank ", rank, "'s tensor ", base::quoted(offer.name), " ");
      if (const auto fault = boxes_fault(offer.global_shape, offer.boxes, offer.begin, offer.end))
        throw UsageError(subject + *fault);
      const auto [known, is_new] = tensors.try_emplace(offer.name, plan.tensors.size(), rank);
      const auto [tensor, first_rank] = known->second;
      if (is_new) plan.tensors.push_back(info);
      if (plan.tensors[tensor] != info)
        throw UsageError(text_of(subject, "is ", described(info), ", on rank ", first_rank, " it is ",
                                 described(plan.tensors[tensor])));
      if (offer.begin == offer.end) continue;
      const auto [place, new_part] = parts.try_emplace(part_of(tensor, offer), replicas.size());
      if (new_part) replicas.push_back({tensor, offer.begin, offer.end, base::size_of(offer.dtype), {}});
      auto& holders = replicas[place->second].holders;
      if (!holders.empty() && holders.back().first == rank) throw UsageError(subject + "is offered twice");
      holders.emplace_back(rank, i);
    }

  std::map<std::vector<size_t>, std::vector<Replicas>> lines;  // by the ranks that hold them
  for (const Replicas& part : replicas) {
    std::vector<size_t> ranks;
    for (const auto& [rank, offer] : part.holders) ranks.push_back(rank);
    lines[ranks].push_back(part);
  }
  for (const auto& [ranks, line] : lines) distribute(line, plan);
  check_plan(plan, offers);
  return plan;
}

base::Json offers_to_json(const std::vector<LocalTensor>& offers) {
  base::Json json = base::Json::array();
  for (const LocalTensor& offer : offers) {
    base::Json boxes = base::Json::array();
    for (const Box& box : offer.boxes) boxes.push_back({box.begin, box.end});
    json.push_back({offer.name, base::name_of(offer.dtype), offer.global_shape, boxes, offer.begin, offer.end});
  }
  return json;
}

std::vector<LocalTensor> offers_from_json(const base::Json& json) {
  std::vector<LocalTensor> offers;
  for (const base::Json& entry : json) {
    LocalTensor offer;
    offer.name = entry[0].get<std::string>();
    offer.dtype = base::dtype_named(entry[1].get<std::string>()).value();
    offer.global_shape = entry[2].get<std::vector<int64_t>>();
    for (const base::Json& box : entry[3])
      offer.boxes.push_back({box[0].get<std::vector<int64_t>>(), box[1].get<std::vector<int64_t>>()});
    offer.begin = entry[4].get<int64_t>();
    offer.end = entry[5].get<int64_t>();
    offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace trireme::checkpoint
