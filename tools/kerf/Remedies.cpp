// SPDX-License-Identifier: Apache-2.0
#include "Remedies.h"
#include "kerf/Support/Units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

constexpr int64_t kMostTimes = 64; // as many ranks

/// So many ranks of the cluster's devices: its own, or more units of its outermost level. Nothing where groups differ
/// and nothing says which of them would grow.
std::optional<Cluster> ofRanks(const Cluster &whole, int64_t ranks) {
  if (ranks <= whole.ranks()) {
    auto first = firstRanks(whole, ranks);
    return first ? std::optional(std::move(*first)) : std::nullopt;
  }
  if (whole.mixed() || whole.levels.empty())
    return std::nullopt;
  Cluster grown = whole;
  Level &outermost = grown.levels.back();
  int64_t each = whole.devicesPerUnit(whole.levels.size() - 1) / outermost.size;
  outermost.size = (ranks + each - 1) / each;
  grown.usedRanks = ranks;
  return grown;
}

/// "16 ranks", and how many of them the cluster has.
std::optional<std::string> enoughRanks(const ModelFlags &model, const Cluster &whole, const Cluster &used,
                                       const AnyFits &anyFits) {
  for (int64_t times = 2; times <= kMostTimes; times *= 2) {
    int64_t ranks = times * used.ranks();
    auto more = ofRanks(whole, ranks);
    if (!more)
      return std::nullopt;
    if (anyFits(model, *more))
      return ranks <= whole.ranks()
                 ? fmt::format("--ranks {}", ranks)
                 : fmt::format("{} ranks of such devices ({} has {})", ranks, whole.name, whole.ranks());
  }
  return std::nullopt;
}

} // namespace

Error withRemedies(Error error, const ModelFlags &model, const Cluster &whole, const Cluster &used,
                   const AnyFits &anyFits) {
  if (error.status != ExitStatus::Infeasible)
    return error;
  std::vector<std::string> found;
  if (auto ranks = enoughRanks(model, whole, used, anyFits))
    found.push_back(*ranks);
  ModelFlags other = model;
  other.optimizer = "sgd";
  other.settings.erase("momentum");
  if (model.optimizer != "sgd" && anyFits(other, used))
    found.push_back("--optimizer sgd");
  other = model;
  other.dtype = "bf16";
  if (model.dtype == "f32" && used.device.kind != "cpu" && anyFits(other, used))
    found.push_back("--dtype bf16");
  error.message += found.empty()
                       ? "; tried without success: up to 64 times as many ranks of such devices, and --optimizer sgd"
                       : fmt::format("; found to fit by trying: {}", fmt::join(found, ", or "));
  return error;
}

} // namespace kerf::tool
