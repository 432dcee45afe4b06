// SPDX-License-Identifier: Apache-2.0
// Arrays of .npz and .npy files whose content stays in the file until a part of it is read.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

/// Where an array's row-major bytes lie in its file. `compressed`: they are deflated, and can only be read with the
/// whole file (readTensors).
struct StoredArray {
  DType dtype = DType::F32;
  Shape shape;
  uint64_t offset = 0; // of the first element
  bool compressed = false;
};

/// Lists the arrays of a .npz file, or the one of a .npy file under the name "". Reads headers alone; sizes are checked
/// against the file.
Result<std::map<std::string, StoredArray>> listArrays(const std::string &path);

/// Checks the checksums of the arrays of a .npz file that are not compressed; a .npy file has none. The file is read
/// from beginning to end, a piece at a time.
Status verifyArrays(const std::string &path);

/// Copies `bytes` bytes of a file from `offset` on. Fails where the file ends before.
Status readBytes(const std::string &path, uint64_t offset, uint64_t bytes, std::byte *out);

} // namespace kerf
