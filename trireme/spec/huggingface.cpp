#include "trireme/base/error.h"
#include "trireme/spec/keys.h"
#include "trireme/spec/model_checks.h"

// Hugging Face's config.json of a gpt2.
namespace trireme::spec {

using base::Json;
using base::text_of;

Gpt2Spec gpt2_from_huggingface(const Json& json, const std::string& source) {
  base::Violations violations;
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  if (!json.is_object() || type == json.end() || *type != "gpt2") {
    const std::string what =
        json.is_object() ? type == json.end() ? "without" : text_of("with model_type ", base::shown(*type), ", not")
                         : "that is no object, without";
    throw base::ConfigError(text_of(source, ": a config.json ", what, " \"model_type\": \"gpt2\""));
  }
  // GPT2Config's own defaults, where ours differ
  Gpt2Spec defaults;
  defaults.vocab_size = 50257;
  defaults.resid_pdrop = defaults.embd_pdrop = defaults.attn_pdrop = 0.1;
  Gpt2Spec spec = read_gpt2(json, "model", defaults, violations);
  if (!violations.empty()) {
    // the lines begin with "model.", a block that this file does not have
    std::string text = violations.text();
    for (size_t at = 0; at != std::string::npos; at = text.find('\n', at)) {
      if (at != 0) ++at;
      if (text.compare(at, 6, "model.") == 0) text.replace(at, 6, source + ": ");
    }
    throw base::ConfigError(text);
  }
  return spec;
}

Json huggingface_config(const Gpt2Spec& spec) {
  Draft draft;
  draft.gpt2 = spec;
  draft.model_type = "gpt2";
  if (draft.gpt2.n_inner == 0) draft.gpt2.n_inner = 4 * spec.n_embd;
  Json json = {{"architectures", {"GPT2LMHeadModel"}}};
  for (const Key& key : gpt2_keys()) {
    const std::string name = key.path.substr(key.path.find('.') + 1);
    if (key.status == Status::Built && name != "n_ctx") json[name] = value_in(key, draft);
  }
  json["dtype"] = "float32";
  // GPT2Config's default is 50256, no token of a byte vocabulary
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  for (const auto& [name, value] : spec.carried.items()) json[name] = value;
  return json;
}

}  // namespace trireme::spec
