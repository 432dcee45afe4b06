// SPDX-License-Identifier: Apache-2.0

// Files of named tensors: safetensors (read and written), NumPy's .npz and folders of .npy files (read). A tensor's
// data stays in the memory-mapped file until it is copied.
#pragma once

#include "kerf/Package/Package.h"
#include "kerf/Support/File.h"
#include <map>
#include <memory>

namespace kerf {

/// A read-only tensor: its row-major, little-endian bytes, and the owner that keeps them alive.
struct Tensor {
  DType dtype = DType::F32;
  Shape shape;
  const std::byte *data = nullptr;   // the first element; not necessarily aligned
  std::shared_ptr<const void> owner; // mapped file or allocation that contains `data`
  /// Returns the size of the data in bytes.
  int64_t bytes() const { return elementsOf(shape) * bytesOf(dtype); }
};
/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// Allocates a tensor of zeros. Returns the tensor and a pointer through which its data may be written.
std::pair<Tensor, std::byte *> allocateTensor(DType dtype, Shape shape);

/// Reads the tensors of a .safetensors file, a .npz file, a Hugging Face folder, or a folder of .npy files. Fails if
/// the path is none of these, or if an offset, size, element type or shape does not match the file.
Result<TensorMap> readTensors(const std::string &path);
/// Writes tensors, and optional text metadata, as a .safetensors file. The file is written as a whole or not at all.
Status writeSafetensors(const std::string &path, const TensorMap &tensors,
                        const std::map<std::string, std::string> &metadata = {});
/// Converts a tensor to another element type, as convertElements does: between floating types, or between integer types
/// with a range check. Fails for other pairs of types and for integers out of range.
Result<Tensor> convertTensor(const Tensor &tensor, DType dtype);

} // namespace kerf
