#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/json.h"

namespace trireme::checkpoint {

/// A whole tensor, row-major, in memory that the caller owns.
struct ExportTensor {
  std::string name;
  std::vector<int64_t> shape;
  base::DType dtype = base::DType::F32;
  const std::byte* data = nullptr;
};

/// Our name -> the name in the file. A name that is not in the map stays as it is.
using NameMap = std::map<std::string, std::string>;

/// Writes `folder` with config.json and model.safetensors as Hugging Face's transformers reads them. The folder appears
/// whole or not at all; one that exists is replaced. Called by one rank. UsageError for a name that occurs twice or a
/// map entry that names no tensor, SystemError with errno's words if the disk refuses.
void export_huggingface(const std::string& folder, const base::Json& config, const std::vector<ExportTensor>& tensors,
                        const NameMap& names = {});

}  // namespace trireme::checkpoint
