// SPDX-License-Identifier: Apache-2.0
// Fuzzes models as text: StableHLO and kerf IR.
#include "Context.h"
#include "Input.h"
#include "kerf/Frontend/Import.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  ImportOptions options;
  options.trainable = {"*"};
  fuzz::judge(importModel(fuzz::context(), fuzz::fileOf(input, "model.mlir"), options));
  return 0;
}
