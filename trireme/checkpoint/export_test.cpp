#include "trireme/checkpoint/export.h"

#include <gtest/gtest.h>

#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/safetensors.h"
#include "trireme/checkpoint/test_ranks.h"

namespace trireme::checkpoint {
namespace {

using test::Folder;
using test::listing;

const std::vector<float> weights{1, 2, 3, 4, 5, 6};
const std::vector<uint16_t> halves{0x3f80};

std::vector<ExportTensor> example() {
  return {{"half", {1}, base::DType::BF16, reinterpret_cast<const std::byte*>(halves.data())},
          {"w", {2, 3}, base::DType::F32, reinterpret_cast<const std::byte*>(weights.data())}};
}

TEST(Export, WritesConfigAndWeights) {
  const Folder folder;
  const std::string target = folder / "export/";
  export_huggingface(target, {{"model_type", "gpt2"}, {"n_layer", 2}}, example(), {{"w", "transformer.w"}});
  EXPECT_EQ(listing(folder.path()),
            (std::vector<std::string>{"export", "export/config.json", "export/model.safetensors"}));
  EXPECT_EQ(base::Json::parse(test::bytes_of_file(target + "config.json"))["n_layer"], 2);
  const base::SafetensorsFile file(target + "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const base::TensorEntry& entry = file.at("transformer.w");
  EXPECT_EQ(entry.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file.bytes(entry).data(), weights.data(), 24), 0);
  EXPECT_EQ(file.at("half").dtype, base::DType::BF16);
}

TEST(Export, ReplacesAnEarlierOne) {
  const Folder folder;
  export_huggingface(folder / "export", {{"n_layer", 1}}, example());
  export_huggingface(folder / "export", {{"n_layer", 2}}, example());
  EXPECT_EQ(listing(folder.path()).size(), 3u);
  EXPECT_EQ(base::Json::parse(test::bytes_of_file(folder / "export/config.json"))["n_layer"], 2);
}

TEST(Export, WrongNamesAreRefusedAndNothingIsLeft) {
  const Folder folder;
  const auto error_of = [&](const NameMap& names) -> std::string {
    try {
      export_huggingface(folder / "export", base::Json::object(), example(), names);
    } catch (const base::UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of({{"w", "half"}}), "the export would hold 'half' twice");
  EXPECT_EQ(error_of({{"halff", "x"}}), "the name map renames 'halff', which is not exported; did you mean 'half'?");
  EXPECT_TRUE(listing(folder.path()).empty());
}

TEST(Export, AnUnwritableFolderIsOneLine) {
  try {
    export_huggingface("/proc/trireme", base::Json::object(), example());
    FAIL();
  } catch (const base::SystemError& error) {
    EXPECT_EQ(std::string(error.what()).find("cannot create the folder /proc/trireme.partial: "), 0u) << error.what();
  }
}

}  // namespace
}  // namespace trireme::checkpoint
