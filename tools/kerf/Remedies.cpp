// SPDX-License-Identifier: Apache-2.0
#include "Remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::tool {

Error withRemedies(Error error, const PlanRequest &request, const PlanFlags &flags) {
  if (error.status != ExitStatus::Infeasible)
    return error;
  auto whole = flags.cluster.empty() ? Result<Cluster>(request.cluster) : readCluster(flags.cluster);
  if (!whole)
    return error;
  Remedies remedies = findRemedies(request, *whole);
  std::vector<std::string> found;
  if (remedies.ranks)
    found.push_back(*remedies.ranks <= whole->ranks() ? fmt::format("--ranks {}", *remedies.ranks)
                                                      : fmt::format("{} ranks of such devices ({} has {})",
                                                                    *remedies.ranks, whole->name, whole->ranks()));
  if (remedies.optimizer)
    found.push_back(fmt::format("--optimizer {}", *remedies.optimizer));
  if (remedies.dtype)
    found.push_back(fmt::format("--dtype {}", *remedies.dtype));
  error.message +=
      found.empty()
          ? "; no remedy was found: neither up to 64 times as many ranks of such devices nor --optimizer sgd fits"
          : fmt::format("; these changes make it fit: {}", fmt::join(found, ", or "));
  return error;
}

} // namespace kerf::tool
