// SPDX-License-Identifier: Apache-2.0
// Fuzzes Hugging Face configurations, read as models and as sizes.
#include "Context.h"
#include "Input.h"
#include "kerf/Frontend/Import.h"
#include "kerf/Frontend/ReadSizes.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  std::string path = fuzz::fileOf(input, "config.json");
  fuzz::judge(importModel(fuzz::context(), path, {}));
  fuzz::judge(readModelSizes(path, 0));
  return 0;
}
