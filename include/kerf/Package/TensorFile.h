// SPDX-License-Identifier: Apache-2.0
// Named tensors in files: safetensors (read, written) and NumPy's .npz / folder of .npy (read). Data stays in the
// mapped file until it is copied out.
#pragma once

#include "kerf/Package/Package.h"
#include "kerf/Support/File.h"
#include <map>
#include <memory>

namespace kerf {

/// A view of a tensor's row-major, little-endian bytes and whatever keeps them alive.
struct Tensor {
  DType dtype = DType::F32;
  Shape shape;
  const std::byte *data = nullptr;
  std::shared_ptr<const void> owner;
  int64_t bytes() const { return elementsOf(shape) * bytesOf(dtype); }
};
using TensorMap = std::map<std::string, Tensor>;

/// A tensor that owns its (zeroed) bytes; `data` of the result may be written through the returned pointer.
std::pair<Tensor, std::byte *> allocateTensor(DType dtype, Shape shape);

/// By suffix: .safetensors, .npz, or a folder of .npy. Offsets, sizes, dtypes and shapes are checked against the file.
Result<TensorMap> readTensors(const std::string &path);
/// Written whole or not at all.
Status writeSafetensors(const std::string &path, const TensorMap &tensors,
                        const std::map<std::string, std::string> &metadata = {});
/// Element-wise conversion between floating types, or between integer types (range-checked); an error otherwise.
Result<Tensor> convertTensor(const Tensor &tensor, DType dtype);

} // namespace kerf
