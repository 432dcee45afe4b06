// SPDX-License-Identifier: Apache-2.0
// Fuzzes cluster.json. A cluster that was read must survive being written and read.
#include "kerf/CostModel/Cluster.h"
#include "Input.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  auto cluster = parseCluster(input, "cluster.json");
  fuzz::judge(cluster);
  if (!cluster)
    return 0;
  std::string text = toJson(*cluster);
  auto again = parseCluster(text, "written cluster.json");
  fuzz::demand(bool(again), "a written cluster is read: " + (again ? "" : again.error().message + "\n" + text));
  fuzz::demand(toJson(*again) == text, "a cluster is written in one way");
  return 0;
}
