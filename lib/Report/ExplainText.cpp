// SPDX-License-Identifier: Apache-2.0
#include "kerf/Report/ExplainText.h"
#include "kerf/PlanSearch/OutsideSpace.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kSecondsOfHour = 3600;
constexpr double kMinShare = 1e-4; // parts that differ by less than this share of the step are left out
constexpr double kLess =
    1 - 1e-9;                    // a step must be shorter than this share to be faster, so that rounding does not count
constexpr size_t kMostParts = 2; // most parts of the step, or break-even points, in one line

double stepOf(const FoundPlan &plan) { return plan.simulation.stepSeconds; }

std::string percentText(double seconds, double baseline) {
  return fmt::format("{:+.2f} %", 100 * (seconds / baseline - 1));
}

/// Returns the parts of the step in which `one` is slower than `baseline`: "bubble +0.52 s, backward +0.1 s".
std::string slowerText(const FoundPlan &one, const FoundPlan &baseline) {
  std::vector<std::string> parts;
  for (const auto &[part, seconds] : differences(one.simulation.breakdown, baseline.simulation.breakdown))
    if (seconds > kMinShare * stepOf(baseline) && parts.size() < kMostParts)
      parts.push_back(fmt::format("{} {:+.3g} s", part, seconds));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Returns how much slower the answer is than `best`: "+4.68 %", followed by the lower bound if the answer is not
/// proven optimal: "+4.68 % (the best plan found; lower bound +1.20 %)". A bound of 0 seconds is none.
std::string answerText(const FoundPlan &answer, bool proven, double lowerBoundSeconds, const FoundPlan &best) {
  std::string text = percentText(stepOf(answer), stepOf(best));
  if (proven)
    return text;
  if (lowerBoundSeconds <= 0)
    return fmt::format("{} (the best plan found)", text);
  return fmt::format("{} (the best plan found; lower bound {})", text, percentText(lowerBoundSeconds, stepOf(best)));
}

std::string memoryText(const char *change, const MemoryVariant &answer, const FoundPlan &best, double changedBytes) {
  if (!answer.plan)
    return fmt::format("               {}: no plan found that fits\n", change);
  const FoundPlan &found = *answer.plan;
  double seconds = stepOf(found) - stepOf(best);
  if (answer.proven() && (differences(best.plan, found.plan).empty() || seconds == 0))
    return fmt::format("               {}: the same step time\n", change);
  return fmt::format("               {}: {}, {:.3g} s per GiB: {}\n", change,
                     answerText(found, answer.proven(), answer.lowerBoundSeconds, best),
                     std::abs(seconds) / (changedBytes / kGiB), planText(found.plan));
}

std::string breakEvensText(const std::vector<BreakEven> &breakEvens) {
  std::vector<std::string> texts;
  for (const BreakEven &point : breakEvens)
    if (texts.size() < kMostParts)
      texts.push_back(fmt::format("{} x {:.3g}", point.quantity, point.factor));
  return fmt::format("{}", fmt::join(texts, " or "));
}

/// Returns the descriptions of plans outside of the search's space (docs/search.md), which the plan's job keeps.
std::vector<std::string> outsideOf(const Plan &plan) {
  std::vector<std::string> outside;
  if (auto job = plan.keptKeys.find("job"); job != plan.keptKeys.end() && job->contains("outside"))
    for (const Json &one : job->at("outside"))
      if (one.is_string())
        outside.push_back(one.get<std::string>());
  return outside;
}

} // namespace

std::string toText(const Explanation &explanation, const FoundPlan &plan) {
  const StageMemory &fullest = plan.simulation.memory[explanation.fullestStage];
  std::string text = fmt::format("{}\n  step         {:.4g} s\n", planText(plan.plan), stepOf(plan));
  text += fmt::format("  memory       {} of {} on stage {}, in the {}\n", bytesText(fullest.deviceBytes),
                      bytesText(fullest.limitBytes), explanation.fullestStage, fullest.moment);
  double tenth = kMemoryStep * fullest.limitBytes;
  text += memoryText("10 % more", explanation.moreMemory, plan, tenth);
  text += memoryText("10 % less", explanation.lessMemory, plan, tenth);
  text += "  step time for 1 % more of\n";
  for (const Sensitivity &one : explanation.sensitivities)
    text += fmt::format("               {:<28} {:+.3g} s\n", one.quantity, one.secondsPerPercent);
  text += "the best plan with another value of each decision\n";
  if (std::vector<std::string> outside = outsideOf(plan.plan); !outside.empty())
    text += fmt::format("  (among the plans that the search covers; not covered: some values of {})\n",
                        keysOutsideSpace(outside));
  for (const Alternative &alternative : explanation.alternatives) {
    text += fmt::format("  {:<18} {}\n", alternative.key, decisionText(plan.plan, alternative.key));
    if (!alternative.plan) {
      text += fmt::format("    none: {}\n", alternative.none);
      continue;
    }
    const FoundPlan &other = *alternative.plan;
    text += fmt::format("    {:<10} {}\n", answerText(other, alternative.proven(), alternative.lowerBoundSeconds, plan),
                        planText(other.plan));
    text += fmt::format("                 value {}; as constraints: {}\n", decisionText(other.plan, alternative.key),
                        constraintsJson(alternative.pins).dump());
    if (std::string slower = slowerText(other, plan); !slower.empty())
      text += fmt::format("                 slower in {}\n", slower);
    if (!alternative.breakEvens.empty())
      text += fmt::format("                 would be faster with {}\n", breakEvensText(alternative.breakEvens));
  }
  if (std::any_of(explanation.alternatives.begin(), explanation.alternatives.end(),
                  [&](const Alternative &one) { return one.plan && stepOf(*one.plan) < stepOf(plan) * kLess; }))
    text += "some of these plans are faster than the plan, which was not proven optimal: plan again with a larger "
            "--budget\n";
  return text;
}

Json toJson(const Explanation &explanation, const FoundPlan &plan) {
  const StageMemory &fullest = plan.simulation.memory[explanation.fullestStage];
  auto planJson = [&](const FoundPlan &one) {
    return Json{
        {"step_seconds", stepOf(one)}, {"device_bytes", maxDeviceBytes(one.simulation)}, {"plan", planText(one.plan)}};
  };
  auto maybe = [&](const std::optional<FoundPlan> &one) { return one ? planJson(*one) : Json(); };
  auto memoryJson = [&](const MemoryVariant &one) {
    Json json = maybe(one.plan);
    if (one.plan) {
      json["memory_bytes"] = one.memoryBytes;
      json["proven"] = one.proven();
      json["lower_bound_seconds"] = one.lowerBoundSeconds;
    }
    return json;
  };
  Json root = planJson(plan), sensitivities = Json::object(), alternatives = Json::array();
  root["memory"] = {{"stage", explanation.fullestStage},
                    {"moment", fullest.moment},
                    {"device_bytes", fullest.deviceBytes},
                    {"limit_bytes", fullest.limitBytes},
                    {"with_10_percent_more", memoryJson(explanation.moreMemory)},
                    {"with_10_percent_less", memoryJson(explanation.lessMemory)}};
  for (const Sensitivity &one : explanation.sensitivities)
    sensitivities[one.quantity] = one.secondsPerPercent;
  root["seconds_for_1_percent_more"] = sensitivities;
  for (const Alternative &alternative : explanation.alternatives) {
    Json one = {{"decision", alternative.key},
                {"value", decisionText(plan.plan, alternative.key)},
                {"alternative", maybe(alternative.plan)}};
    if (!alternative.plan)
      one["none"] = alternative.none;
    if (alternative.plan) {
      one["other_value"] = decisionText(alternative.plan->plan, alternative.key);
      one["constraints"] = constraintsJson(withPins(explanation.constraints, alternative.pins));
      one["proven"] = alternative.proven();
      one["lower_bound_seconds"] = alternative.lowerBoundSeconds;
      one["loses_in"] = Json::object();
      for (const auto &[part, seconds] : differences(alternative.plan->simulation.breakdown, plan.simulation.breakdown))
        one["loses_in"][part] = seconds;
      one["wins_with"] = Json::object();
      for (const BreakEven &point : alternative.breakEvens)
        one["wins_with"][point.quantity] = point.factor;
    }
    alternatives.push_back(std::move(one));
  }
  root["alternatives"] = std::move(alternatives);
  return root;
}

std::string differenceText(const FoundPlan &one, const FoundPlan &other) {
  std::string text = fmt::format("  step         {:.4g} s -> {:.4g} s ({})\n", stepOf(one), stepOf(other),
                                 percentText(stepOf(other), stepOf(one)));
  for (const auto &[part, seconds] : differences(other.simulation.breakdown, one.simulation.breakdown))
    if (std::abs(seconds) > kMinShare * stepOf(one))
      text += fmt::format("               {} {:+.3g} s\n", part, seconds);
  text += fmt::format("  memory       {} -> {} on the fullest device\n", bytesText(maxDeviceBytes(one.simulation)),
                      bytesText(maxDeviceBytes(other.simulation)));
  std::vector<PlanDifference> list = differences(one.plan, other.plan);
  for (const PlanDifference &difference : list)
    text += fmt::format("  {:<20} {} -> {}\n", difference.key, difference.one, difference.other);
  return list.empty() ? text + "  no decision differs\n" : text;
}

Json differenceJson(const FoundPlan &one, const FoundPlan &other) {
  Json root = {{"step_seconds", {stepOf(one), stepOf(other)}},
               {"device_bytes", {maxDeviceBytes(one.simulation), maxDeviceBytes(other.simulation)}},
               {"breakdown", Json::object()},
               {"decisions", Json::object()}};
  for (const auto &[part, seconds] : differences(other.simulation.breakdown, one.simulation.breakdown))
    root["breakdown"][part] = seconds;
  for (const PlanDifference &difference : differences(one.plan, other.plan))
    root["decisions"][difference.key] = {difference.one, difference.other};
  return root;
}

std::string toText(const std::vector<ParetoPlan> &plans, double pricePerHour) {
  std::string text =
      fmt::format("plans that no other plan beats in step time, ranks and memory\n  {:>6} {:>12} {:>12}{}  plan\n",
                  "ranks", "GiB per rank", "step", pricePerHour > 0 ? "   price/step" : "");
  for (const ParetoPlan &plan : plans) {
    double price = stepOf(plan.plan) / kSecondsOfHour * static_cast<double>(plan.ranks) * pricePerHour;
    text += fmt::format("  {:>6} {:>12.2f} {:>10.4g} s{}  {}\n", plan.ranks, plan.deviceBytes / kGiB, stepOf(plan.plan),
                        pricePerHour > 0 ? fmt::format(" {:>12.4g}", price) : "", planText(plan.plan.plan));
  }
  return text;
}

Json toJson(const std::vector<ParetoPlan> &plans, double pricePerHour) {
  Json list = Json::array();
  for (const ParetoPlan &plan : plans) {
    Json one = {{"ranks", plan.ranks}, {"device_bytes", plan.deviceBytes}, {"step_seconds", stepOf(plan.plan)}};
    if (pricePerHour > 0)
      one["price"] = stepOf(plan.plan) / kSecondsOfHour * static_cast<double>(plan.ranks) * pricePerHour;
    one["plan"] = Json::parse(toJson(plan.plan.plan));
    list.push_back(std::move(one));
  }
  return list;
}

} // namespace kerf
