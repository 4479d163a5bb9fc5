#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// Element types that cross a file or a wire. The names are those of safetensors.
namespace trireme::base {

enum class DType : uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool };

/// Bytes an element.
size_t size_of(DType dtype);

/// "F32", "BF16", "BOOL", … as in a safetensors header.
std::string_view name_of(DType dtype);

/// The inverse of name_of; nothing if the name is unknown.
std::optional<DType> dtype_named(std::string_view name);

}  // namespace trireme::base
