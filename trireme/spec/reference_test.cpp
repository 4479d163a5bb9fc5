#include "trireme/spec/reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "trireme/base/file.h"
#include "trireme/spec/keys.h"

namespace trireme::spec {
namespace {

const std::string page_path =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "docs" / "configuration.md";

TEST(Reference, page_is_generated_from_the_table) {
  const std::string page = reference_page();
  if (std::getenv("TRIREME_REGENERATE")) base::write_file_atomically(page_path, page);
  EXPECT_TRUE(base::read_file(page_path) == page)
      << page_path << " is out of date; TRIREME_REGENERATE=1 spec_test --gtest_filter=Reference.* writes it";
}

TEST(Reference, every_key_is_on_the_page_once) {
  const std::string page = reference_page();
  for (const KeyTable* table : {&config_keys(), &gpt2_keys(), &mlp_keys()}) {
    std::set<std::string> paths;
    for (const Key& key : *table) {
      EXPECT_TRUE(paths.insert(key.path).second) << key.path;
      const std::string name = key.status == Status::Carried ? key.path.substr(key.path.find('.') + 1) : key.path;
      EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << key.path;
      EXPECT_FALSE(key.sentence.empty()) << key.path;
    }
  }
}

// A default that the key's own range refuses could not be written down.
TEST(Reference, defaults_are_legal) {
  Draft draft;
  for (const KeyTable* table : {&config_keys(), &gpt2_keys(), &mlp_keys()}) {
    for (const Key& key : *table) {
      if (key.status != Status::Built || !key.shown_default.empty()) continue;
      const base::Json value = value_in(key, draft);
      if (key.kind == Kind::Integer) {
        EXPECT_TRUE(value >= key.least && value <= key.most) << key.path;
      }
      if (key.kind == Kind::Text && !key.choices.empty()) {
        EXPECT_NE(std::find(key.choices.begin(), key.choices.end(), value.get<std::string>()), key.choices.end())
            << key.path;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::spec
