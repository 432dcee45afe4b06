// SPDX-License-Identifier: Apache-2.0

// The header of a .safetensors file, for writers that do not hold all tensors in memory at once.
#pragma once

#include "kerf/Package/Package.h"
#include <map>

namespace kerf {

/// Name, element type and shape of a tensor in a .safetensors file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

/// Returns the bytes that precede the tensors' data in a .safetensors file: the header's length and the header.
/// The data must follow in the order of `tensors`, without gaps. Fails if a tensor is named "__metadata__", which
/// is reserved.
Result<std::string> safetensorsHeader(const std::vector<TensorEntry> &tensors,
                                      const std::map<std::string, std::string> &metadata = {});

} // namespace kerf
