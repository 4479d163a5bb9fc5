#include "trireme/checkpoint/export.h"

#include <set>

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/base/safetensors.h"
#include "trireme/checkpoint/files.h"

namespace trireme::checkpoint {
namespace {

std::vector<base::TensorSource> sources_of(const std::vector<ExportTensor>& tensors, const NameMap& names) {
  std::vector<base::TensorSource> sources;
  std::set<std::string> ours, theirs;
  for (const ExportTensor& tensor : tensors) {
    const auto mapped = names.find(tensor.name);
    const std::string& name = mapped == names.end() ? tensor.name : mapped->second;
    const auto elements = base::element_count(tensor.shape);
    if (!elements) throw base::UsageError("tensor " + base::quoted(tensor.name) + " has an impossible shape");
    if (!ours.insert(tensor.name).second || !theirs.insert(name).second)
      throw base::UsageError("the export would hold " + base::quoted(name) + " twice");
    const auto bytes = static_cast<size_t>(*elements) * base::size_of(tensor.dtype);
    sources.push_back({name, tensor.dtype, tensor.shape, {tensor.data, bytes}});
  }
  for (const auto& [name, mapped] : names)
    if (!ours.contains(name))
      throw base::UsageError(
          base::text_of("the name map renames ", base::quoted(name), ", which is not exported",
                        base::did_you_mean(name, std::vector<std::string>(ours.begin(), ours.end()))));
  return sources;
}

}  // namespace

void export_huggingface(const std::string& folder, const base::Json& config, const std::vector<ExportTensor>& tensors,
                        const NameMap& names) {
  const std::vector<base::TensorSource> sources = sources_of(tensors, names);
  const std::string target = without_final_slash(folder);
  const std::string partial = target + ".partial";
  remove_folder(partial);
  try {
    make_folder(partial);
    // transformers refuses a file whose metadata does not say "pt"
    base::write_safetensors(partial + "/model.safetensors", sources, {{"format", "pt"}});
    OutputFile file(partial + "/config.json");
    file.write(config.dump(2) + "\n");
    file.close();
    sync_folder(partial);
    commit_folder(partial, target);
    sync_folder(parent_of(target));
  } catch (...) {
    remove_folder(partial);
    throw;
  }
  remove_folder(partial);
}

}  // namespace trireme::checkpoint
