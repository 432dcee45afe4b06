// SPDX-License-Identifier: Apache-2.0
// Fuzzes program.json of a package: it is read, checked, written, and planned as in a run, up to the checks
// of the kernels.
#include "Input.h"
#include "kerf/Package/Package.h"
#include "kerf/Runtime/Executor.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  auto program = package::readProgram(input);
  fuzz::judge(program);
  if (!program)
    return 0;
  std::string text = package::writeProgram(*program);
  auto again = package::readProgram(text);
  fuzz::demand(bool(again), "a written program is read: " + (again ? "" : again.error().message + "\n" + text));
  fuzz::demand(package::writeProgram(*again) == text, "a program is written in one way");
  fuzz::judge(runtime::planMemory(*program));
  return 0;
}
