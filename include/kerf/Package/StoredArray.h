// SPDX-License-Identifier: Apache-2.0

// NumPy arrays in .npz and .npy files that are read in parts, instead of being loaded as a whole.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

/// Type of a NumPy array and the location of its row-major bytes in its file.
struct StoredArray {
  DType dtype = DType::F32;
  Shape shape;
  uint64_t offset = 0;     // position of the first element, in bytes from the beginning of the file
  bool compressed = false; // true if the array is deflated: it can then be read only as a whole, by readTensors
};

/// Lists the arrays of a .npz file by name, or the array of a .npy file under the name "". Reads only the arrays'
/// headers; fails if a header is malformed or an array is longer than its file.
Result<std::map<std::string, StoredArray>> listArrays(const std::string &path);

/// Checks the CRC-32 checksums of the uncompressed arrays of a .npz file, reading the file once in small pieces.
/// Succeeds for a .npy file, which has no checksum.
Status verifyArrays(const std::string &path);

/// Reads `bytes` bytes of a file, beginning at byte `offset`, into `out`. Fails if the file ends before.
Status readBytes(const std::string &path, uint64_t offset, uint64_t bytes, std::byte *out);

} // namespace kerf
