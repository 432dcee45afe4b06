// SPDX-License-Identifier: Apache-2.0
// What the sources of this room share: one reader a file format, and arithmetic on shapes that come from files.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

Result<TensorMap> readSafetensors(const std::string &path);
Result<TensorMap> readNpz(const std::string &path);
Result<TensorMap> readNpyFolder(const std::string &path);

/// The product; nothing when a size is negative or the bytes would not fit in 63 bits.
std::optional<int64_t> checkedElements(const Shape &shape);

/// A message when objects or arrays are nested deeper than anything this program writes (recursion in the JSON library
/// is bounded).
Status checkNesting(std::string_view json);

} // namespace kerf
