#include "trireme/spec/model.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/spec/model_checks.h"
#include "trireme/spec/parse.h"

namespace trireme::spec {

using base::Json;
using base::text_of;
using base::Violations;

Gpt2Spec read_gpt2(const Json& block, const std::string& path, Gpt2Spec defaults, Violations& violations) {
  Draft draft;
  draft.gpt2 = std::move(defaults);
  Given given;
  parse_block(gpt2_keys(), block, path + ".", {}, draft, given, violations);
  Gpt2Spec& spec = draft.gpt2;
  // in the table's order: two files that say the same give equal specs
  const Json as_given = std::exchange(spec.carried, Json::object());
  for (const Key& key : gpt2_keys()) {
    const std::string name = key.path.substr(key.path.find('.') + 1);
    if (key.status == Status::Carried && as_given.contains(name)) spec.carried[name] = as_given[name];
  }
  if (spec.n_inner == 0) spec.n_inner = 4 * spec.n_embd;
  const bool sizes_right = given.wrong.count("model.n_embd") == 0 && given.wrong.count("model.n_head") == 0;
  if (sizes_right && spec.n_embd % spec.n_head != 0) {
    const int64_t below = spec.n_embd / spec.n_head * spec.n_head;
    violations.add(path + ".n_embd",
                   text_of(spec.n_embd, " is not a multiple of n_head ", spec.n_head,
                           "; nearest legal n_embd: ", below > 0 ? text_of(below, " or ") : "", below + spec.n_head));
  }
  if (given.has("model.n_ctx") && given.wrong.empty() && draft.n_ctx != spec.n_positions) {
    violations.add(path + ".n_ctx",
                   text_of(draft.n_ctx, " differs from n_positions ", spec.n_positions, "; remove it"));
  }
  return spec;
}

namespace {

MlpSpec read_mlp(const Json& block, const std::string& path, Violations& violations) {
  Draft draft;
  Given given;
  parse_block(mlp_keys(), block, path + ".", {}, draft, given, violations);
  return draft.mlp;
}

ModelSpec read_reference_model(const Json& block, const std::string& path, Violations& violations) {
  const std::vector<std::string> known = {"gpt2", "mlp"};
  const auto type = block.find("model_type");
  if (type == block.end() || !type->is_string()) {
    const std::string problem = type == block.end() ? "is missing" : text_of(base::shown(*type), " is not a string");
    violations.add(path + ".model_type", text_of(problem, "; one of ", listed(known)));
    return {};
  }
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "gpt2") return read_gpt2(block, path, {}, violations);
  if (name == "mlp") return read_mlp(block, path, violations);
  if (name == "llama" || name == "vit") {
    violations.add(path + ".model_type", text_of(base::shown(*type), " is not supported yet; one of ", listed(known)));
  } else {
    violations.add(path + ".model_type",
                   text_of(base::shown(*type), " is unknown; one of ", listed(known), base::did_you_mean(name, known)));
  }
  return {};
}

}  // namespace

ModelReader reference_models() {
  return read_reference_model;
}

ModelReader own_model(std::function<void(base::Reader&)> read) {
  return [read = std::move(read)](const Json& block, const std::string& path, Violations& violations) -> ModelSpec {
    if (read) {
      base::Reader reader(block, path, violations);
      read(reader);
      reader.finish();
    }
    return {};
  };
}

int64_t parameter_count(const Gpt2Spec& spec) {
  const int64_t e = spec.n_embd;
  const int64_t inner = spec.n_inner ? spec.n_inner : 4 * e;
  const int64_t norms = 4 * e;
  const int64_t attention = (3 * e * e + 3 * e) + (e * e + e);
  const int64_t feed_forward = (e * inner + inner) + (inner * e + e);
  const int64_t head = spec.tie_word_embeddings ? 0 : spec.vocab_size * e;
  return (spec.vocab_size + spec.n_positions) * e + spec.n_layer * (norms + attention + feed_forward) + 2 * e + head;
}

int64_t parameter_count(const MlpSpec& spec) {
  const int64_t h = spec.hidden_size;
  return (spec.input_size + 1) * h + (spec.num_hidden_layers - 1) * (h + 1) * h + (h + 1) * spec.output_size;
}

}  // namespace trireme::spec
