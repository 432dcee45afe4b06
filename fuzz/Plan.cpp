// SPDX-License-Identifier: Apache-2.0
// Fuzzes plan.json. A plan that was read must survive being written and read.
#include "kerf/Search/Plan.h"
#include "Input.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  auto plan = parsePlan(input, "plan.json");
  fuzz::judge(plan);
  if (!plan)
    return 0;
  std::string text = toJson(*plan);
  auto again = parsePlan(text, "written plan.json");
  fuzz::demand(bool(again), "a written plan is read: " + (again ? "" : again.error().message + "\n" + text));
  fuzz::demand(toJson(*again) == text, "a plan is written in one way");
  return 0;
}
