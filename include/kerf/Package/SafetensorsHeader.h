// SPDX-License-Identifier: Apache-2.0
// For writers of .safetensors files that have not all tensors in memory at once.
#pragma once

#include "kerf/Package/Package.h"
#include <map>

namespace kerf {

struct TensorEntry {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

/// What comes before the tensors' bytes, which follow in this order without gaps.
Result<std::string> safetensorsHeader(const std::vector<TensorEntry> &tensors,
                                      const std::map<std::string, std::string> &metadata = {});

} // namespace kerf
