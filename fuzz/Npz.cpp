// SPDX-License-Identifier: Apache-2.0
// Fuzzes NumPy's .npz and .npy files.
#include "Input.h"
#include "kerf/Package/TensorFile.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  // The input is also read as a bare array, where no checksum precedes the rest.
  std::filesystem::path arrays = fuzz::folder() / "arrays";
  std::filesystem::create_directories(arrays);
  fuzz::fileOf(input, "arrays/x.npy");
  for (const std::string &path : {fuzz::fileOf(input, "data.npz"), arrays.string()}) {
    auto tensors = readTensors(path);
    fuzz::judge(tensors);
    if (tensors)
      for (const auto &[name, tensor] : *tensors) // reads every byte
        (void)convertTensor(tensor, tensor.dtype == DType::F64 ? DType::F32 : DType::I64);
  }
  return 0;
}
