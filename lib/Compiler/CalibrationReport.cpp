// SPDX-License-Identifier: Apache-2.0
// Reports of calibrations.
#include "kerf/Compiler/Calibrate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;

/// The keys of the prices in JSON.
constexpr const char *kPriceKeys[] = {"products",     "attention",     "memory", "host",
                                      "links_inside", "links_between", "all"};

} // namespace

std::string toText(const Calibration &calibration, const std::string &trainer) {
  size_t measured = std::ranges::count_if(calibration.runs, [](const auto &one) { return one.run.seconds > 0; });
  std::string text = fmt::format("{} calibrated for {} by {} measured step{}\n", calibration.cluster.name, trainer,
                                 measured, measured == 1 ? "" : "s");
  text += fmt::format("  {:<24} {:>10}  {:<32}  {}\n", "run", "measured", "before, in 80 % of cases", "after");
  auto range = [](double seconds, const Interval &interval) {
    return fmt::format("{:.4g} s ({:.4g} to {:.4g})", seconds, interval.low, interval.high);
  };
  for (const CalibratedRun &one : calibration.runs)
    text += fmt::format("  {:<24} {:>10}  {:<32}  {}\n", one.run.name,
                        one.run.seconds > 0 ? fmt::format("{:.4g} s", one.run.seconds) : "-",
                        range(one.before, one.intervalBefore), range(one.after, one.intervalAfter));
  const LeaveOneOut &evidence = calibration.evidence;
  if (evidence.steps >= 2)
    text +=
        fmt::format("  Each step predicted from the others: mean error {:.1f} % without corrections, {:.1f} % with "
                    "them{}\n",
                    100 * std::expm1(evidence.before), 100 * std::expm1(evidence.after),
                    evidence.scale > 0 ? "" : "; the steps change no price, because this helps at most one of them");
  text += fmt::format("  {:<24} {:>10}  {}\n", "price", "factor", "spread before and after");
  for (size_t k = 0; k < kPrices; ++k)
    text += fmt::format("  {:<24} {:>10.3f}  {:.3f} {:.3f}\n",
                        k < kWorkKinds ? std::string(toString(static_cast<WorkKind>(k))) : "all work",
                        calibration.factors[k], calibration.spreadsBefore[k], calibration.spreadsAfter[k]);
  if (calibration.next)
    text += fmt::format("  next         {}: it would reduce the spread of predictions from {:.1f} to {:.1f} %\n",
                        calibration.next->name, 100 * calibration.spreadNow, 100 * calibration.spreadWithNext);
  return text;
}

Json toJson(const Calibration &calibration) {
  Json root, runs = Json::array(), prices = Json::object();
  auto pair = [](const Interval &interval) { return Json{interval.low, interval.high}; };
  for (const CalibratedRun &one : calibration.runs)
    runs.push_back({{"run", one.run.name},
                    {"measured_seconds", one.run.seconds > 0 ? Json(one.run.seconds) : Json()},
                    {"before", one.before},
                    {"interval_before", pair(one.intervalBefore)},
                    {"after", one.after},
                    {"interval_after", pair(one.intervalAfter)}});
  for (size_t k = 0; k < kPrices; ++k)
    prices[kPriceKeys[k]] = {{"factor", calibration.factors[k]},
                             {"spread_before", calibration.spreadsBefore[k]},
                             {"spread_after", calibration.spreadsAfter[k]}};
  root["runs"] = std::move(runs);
  const LeaveOneOut &evidence = calibration.evidence;
  root["leave_one_out"] = {
      {"steps", evidence.steps}, {"before", evidence.before}, {"after", evidence.after}, {"scale", evidence.scale}};
  root["prices"] = std::move(prices);
  if (calibration.next)
    root["next"] = {{"run", calibration.next->name},
                    {"spread_now", calibration.spreadNow},
                    {"spread_with_next", calibration.spreadWithNext},
                    {"plan", Json::parse(toJson(calibration.next->plan))}};
  return root;
}

} // namespace kerf
