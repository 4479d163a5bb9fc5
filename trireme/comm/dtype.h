#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "trireme/base/dtype.h"

namespace trireme::comm {

/// The name of torch's element type on wires and in files; nothing for one that has none (complex, quantised).
std::optional<base::DType> dtype_of(at::ScalarType type);

/// The inverse of dtype_of.
at::ScalarType scalar_type_of(base::DType dtype);

}  // namespace trireme::comm
