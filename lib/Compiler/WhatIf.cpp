// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/ExplainJob.h"
#include "kerf/PlanSearch/Explain.h"
#include "kerf/Support/Suggest.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace kerf {

Status scaleJob(const std::string &whatIf, Cluster &cluster, JobSettings &settings, Plan &constraints) {
  size_t at = whatIf.find_last_of("*/");
  std::string name = whatIf.substr(0, at == std::string::npos ? 0 : at);
  double factor = 0;
  const char *end = whatIf.data() + whatIf.size();
  auto read = at == std::string::npos ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                      : std::from_chars(whatIf.data() + at + 1, end, factor);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(factor) || factor <= 0)
    return Error{fmt::format("<what-if> '{}' has to be a quantity, '*' or '/' and a number above 0, as in "
                             "\"infiniband.bandwidth*2\"",
                             whatIf)};
  if (whatIf[at] == '/')
    factor = 1 / factor;
  if (name.starts_with("level."))
    name = name.substr(6);
  auto whole = [&](int64_t value) -> Result<int64_t> {
    double scaled = static_cast<double>(value) * factor;
    if (scaled < 1 || scaled != std::floor(scaled) || scaled > 1e15)
      return Error{
          fmt::format("<what-if> {}: {} x {} is not a whole number; give another factor", whatIf, value, factor)};
    return static_cast<int64_t>(scaled);
  };
  if (name == "global_batch") {
    int64_t now = settings.model.globalBatch ? settings.model.globalBatch : constraints.globalBatch;
    if (now == 0)
      return Error{fmt::format(
          "<what-if> {}: the batch of an export is fixed; only a config.json's model can have another", whatIf)};
    auto batch = whole(now);
    if (!batch)
      return batch.error();
    settings.model.globalBatch = *batch;
    constraints.globalBatch = 0;
    return ok();
  }
  if (name == "ranks") {
    auto ranks = whole(settings.search.ranks ? settings.search.ranks : cluster.ranks());
    if (!ranks)
      return ranks.error();
    if (cluster.mixed() && *ranks > cluster.ranks())
      return Error{
          fmt::format("<what-if> {}: '{}' has {} ranks in {} groups, and it is unclear which group would grow; give "
                      "at most that many ranks",
                      whatIf, cluster.name, cluster.ranks(), cluster.groups.size())};
    settings.search.ranks = *ranks;
    if (cluster.mixed())
      return ok();
    Level &outermost = cluster.levels.back(); // the outermost level gets more units when the cluster is too small
    int64_t each = cluster.devicesPerUnit(cluster.levels.size() - 1) / outermost.size;
    outermost.size = std::max(outermost.size, (*ranks + each - 1) / each);
    cluster.usedRanks = each * outermost.size;
    return ok();
  }
  if (name == "device.memory") {
    if (factor > 1e6 || factor < 1e-6)
      return Error{fmt::format("<what-if> {}: the factor of a device's memory is {}; give a factor from 1e-6 to 1e6",
                               whatIf, factor)};
    settings.search.memory = std::llround(static_cast<double>(settings.search.memory) *
                                          factor); // 0 stands for the memory of the device and stays 0
  }
  if (scaleQuantity(cluster, name, factor))
    return ok();
  std::vector<std::string> known = scalableQuantities(cluster);
  known.insert(known.end(), {"device.memory", "ranks", "global_batch"});
  return Error{fmt::format("<what-if> {}: '{}' is not a known quantity; {}", whatIf, name, suggestion(name, known))};
}

} // namespace kerf
