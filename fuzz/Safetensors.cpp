// SPDX-License-Identifier: Apache-2.0
// Fuzzes safetensors files.
#include "Input.h"
#include "kerf/Package/TensorFile.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  auto tensors = readTensors(fuzz::fileOf(input, "data.safetensors"));
  fuzz::judge(tensors);
  if (tensors)
    for (const auto &[name, tensor] : *tensors) // reads every byte
      (void)convertTensor(tensor, tensor.dtype == DType::F64 ? DType::F32 : DType::I64);
  return 0;
}
