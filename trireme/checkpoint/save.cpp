#include "trireme/checkpoint/save.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/base/names.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/checksum.h"
#include "trireme/checkpoint/files.h"
#include "trireme/checkpoint/folders.h"
#include "trireme/checkpoint/plan.h"
#include "trireme/checkpoint/retention.h"
#include "trireme/checkpoint/shard.h"

namespace trireme::checkpoint {
namespace {

using base::Json;
using base::text_of;

/// Where a save happens.
struct Target {
  std::string folder;                ///< its final name
  std::string partial;               ///< its name while it is written
  std::string scratch;               ///< what rank 0 removes before and after: `partial` or a parent of it
  std::function<void()> after = {};  ///< rank 0, after the commit
};

// JSON has no NaN and no infinity: they would come back as null
void check_state(const Json& value, const std::string& path) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw base::UsageError("a checkpoint's state must hold finite numbers, but " + path + " is not");
  if (value.is_object())
    for (const auto& [key, inner] : value.items()) check_state(inner, path + "." + key);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) check_state(value[i], text_of(path, "[", i, "]"));
}

void check_request(const SaveRequest& request) {
  if (request.step < 0) throw base::UsageError(text_of("a checkpoint's step must be from 0 on, not ", request.step));
  if (request.keep < 0)
    throw base::UsageError(text_of("the number of checkpoints to keep must be from 0 on, not ", request.keep));
  check_state(request.state, "state");
  for (const LocalTensor& tensor : request.tensors)
    if (tensor.data == nullptr && tensor.begin < tensor.end)
      throw base::UsageError("tensor " + base::quoted(tensor.name) + " has no memory");
}

/// Writes this rank's shard: [] or [file, [[tensor, offer, begin, end, offset, checksum], …]].
Json write_share(const Target& target, const SaveRequest& request, const Plan& plan, int rank) {
  const std::vector<PlannedPiece>& planned = plan.ranks[static_cast<size_t>(rank)];
  if (planned.empty()) return Json::array();
  std::vector<ShardPiece> pieces;
  for (const PlannedPiece& piece : planned) {
    const LocalTensor& tensor = request.tensors[piece.offer];
    const auto skipped = static_cast<size_t>(piece.begin - tensor.begin) * base::size_of(tensor.dtype);
    pieces.push_back({tensor.name, tensor.dtype, piece.end - piece.begin, tensor.data + skipped, 0, 0});
  }
  const StoredFile file = write_shard(target.partial, shard_name(rank), {request.step, request.run_id}, pieces);
  Json stored = Json::array();
  for (const ShardPiece& piece : pieces) stored.push_back({piece.offset, piece.checksum});
  return {file.bytes, file.checked_bytes, file.checksum, stored};
}

Manifest manifest_of(const SaveRequest& request, const Plan& plan, const std::vector<std::vector<LocalTensor>>& offers,
                     const std::vector<Json>& shares) {
  Manifest manifest;
  manifest.step = request.step;
  manifest.run_id = request.run_id;
  manifest.ranks = static_cast<int64_t>(shares.size());
  for (const TensorInfo& info : plan.tensors) manifest.tensors.push_back({info, {}});
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const Json& share = shares[rank];
    if (share.empty()) continue;
    const std::string name = shard_name(static_cast<int>(rank));
    manifest.files.push_back({name, share[0].get<uint64_t>(), share[1].get<uint64_t>(), share[2].get<uint64_t>()});
    for (size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const PlannedPiece& piece = plan.ranks[rank][i];
      manifest.tensors[piece.tensor].pieces.push_back({offers[rank][piece.offer].boxes, piece.begin, piece.end, name,
                                                       share[3][i][0].get<uint64_t>(), share[3][i][1].get<uint64_t>()});
    }
  }
  return manifest;
}

void write_synced(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.close();
}

/// Rank 0: state, manifest and the renaming that makes the checkpoint exist.
void commit(const Target& target, const SaveRequest& request, Manifest manifest) {
  const std::string state = request.state.dump(2) + "\n";
  write_synced(target.partial + "/" + state_name, state);
  manifest.files.push_back({state_name, state.size(), state.size(), checksum_of(std::as_bytes(std::span(state)))});
  const std::string text = manifest_text(manifest);
  // the reader's own proof, on the very text that is written
  parse_manifest(text, target.folder);
  write_synced(target.partial + "/" + manifest_name, text);
  sync_folder(target.partial);
  const std::string parent = parent_of(target.folder);
  make_folder(parent);
  commit_folder(target.partial, target.folder);
  sync_folder(parent);
}

void save_steps(const Target& target, const SaveRequest& request, int rank, const GatherStrings& gather) {
  const std::vector<Json> encoded = comm::agree(gather, [&] {
    check_request(request);
    return Json{{"step", request.step}, {"run_id", request.run_id}, {"offers", offers_to_json(request.tensors)}};
  });
  // every rank sees the same, so if this throws it throws everywhere
  std::vector<std::vector<LocalTensor>> offers;
  for (size_t other = 0; other < encoded.size(); ++other) {
    for (const char* key : {"step", "run_id"})
      if (encoded[other][key] != encoded[0][key])
        throw base::UsageError(text_of("ranks save different checkpoints: ", key, " is ", encoded[0][key],
                                       " on rank 0 and ", encoded[other][key], " on rank ", other));
    offers.push_back(offers_from_json(encoded[other]["offers"]));
  }
  const Plan plan = plan_save(offers);

  comm::agree(gather, [&] {
    if (rank == 0) {
      remove_folder(target.scratch);
      make_folder(target.partial);
    }
    return Json();
  });
  const std::vector<Json> shares = comm::agree(gather, [&] { return write_share(target, request, plan, rank); });
  comm::agree(gather, [&] {
    if (rank == 0) commit(target, request, manifest_of(request, plan, offers, shares));
    return Json();
  });
  if (rank == 0) {
    try {
      if (target.after) target.after();
    } catch (const base::Error& error) {
      base::log_warning("old checkpoints were not deleted: ", error.what());
    }
    remove_folder(target.scratch);
  }
}

void save_into(const Target& target, const SaveRequest& request, int rank, const GatherStrings& gather) {
  const auto clean = [&] {
    if (rank == 0) remove_folder(target.scratch);
  };
  try {
    save_steps(target, request, rank, gather);
  } catch (const comm::Failure& failure) {
    clean();
    // a rank that ends with its error takes the others down: not before everything is removed
    gather("");
    comm::throw_error(failure, text_of("saving the checkpoint ", target.folder, " failed on rank ", failure.rank, ": ",
                                       failure.text));
  } catch (...) {
    clean();
    throw;
  }
}

}  // namespace

void save(const SaveRequest& request, int rank, const GatherStrings& gather) {
  const std::string run_folder = without_final_slash(request.run_folder);
  const std::string scratch = run_folder + "/checkpoints.partial";
  // a wrong step is reported by check_request, on all ranks
  const int64_t step = request.step < 0 ? 0 : request.step;
  save_into({step_folder(run_folder, step), scratch + "/" + step_name(step), scratch,
             [&] { retain(run_folder, request.run_id, request.step, request.keep); }},
            request, rank, gather);
}

void save_to(const std::string& folder, const SaveRequest& request, int rank, const GatherStrings& gather) {
  const std::string target = without_final_slash(folder);
  save_into({target, target + ".partial", target + ".partial"}, request, rank, gather);
}

std::optional<std::string> space_warning(const std::string& folder, int64_t bytes) {
  std::filesystem::path existing = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  if (::access(existing.c_str(), W_OK) != 0)
    return text_of("checkpoints cannot be written to ", folder, ": ", std::strerror(errno));
  struct statvfs space {};
  if (::statvfs(existing.c_str(), &space) != 0)
    return text_of("the space for checkpoints in ", folder, " is unknown: ", std::strerror(errno));
  const auto free_bytes = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  if (free_bytes >= bytes) return std::nullopt;
  return text_of("a checkpoint needs ", base::format_bytes(bytes), ", but ", existing.string(), " has ",
                 base::format_bytes(free_bytes), " free");
}

}  // namespace trireme::checkpoint
