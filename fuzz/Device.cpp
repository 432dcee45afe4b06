// SPDX-License-Identifier: Apache-2.0
// Fuzzes device programs written by hand as IR text.
#include "Context.h"
#include "Input.h"
#include "kerf/Frontend/DeviceFile.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  fuzz::judge(readDeviceProgram(fuzz::context(), fuzz::fileOf(input, "device.mlir"), std::nullopt));
  return 0;
}
