// SPDX-License-Identifier: Apache-2.0
// Fuzzes placement problems, compressed or not.
#include "Input.h"
#include "kerf/Search/ProblemFile.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  fuzz::judge(readProblem(fuzz::fileOf(input, "problem.json")));
  return 0;
}
