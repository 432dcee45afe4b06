// SPDX-License-Identifier: Apache-2.0
#include "kerf/Report/ExplainText.h"
#include "kerf/PlanSearch/Outside.h"
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
constexpr double kTold = 1e-4;     // of the step: less is not told
constexpr double kLess = 1 - 1e-9; // of a step: rounding is no difference
constexpr size_t kMostParts = 2;   // of a breakdown, and flips, that a line names

double stepOf(const FoundPlan &plan) { return plan.simulation.stepSeconds; }

std::string percentText(double seconds, double than) { return fmt::format("{:+.2f} %", 100 * (seconds / than - 1)); }

/// "bubble +0.52 s, backward +0.1 s": where `one` is slower than `than`.
std::string slowerText(const FoundPlan &one, const FoundPlan &than) {
  std::vector<std::string> parts;
  for (const auto &[part, seconds] : differences(one.simulation.breakdown, than.simulation.breakdown))
    if (seconds > kTold * stepOf(than) && parts.size() < kMostParts)
      parts.push_back(fmt::format("{} {:+.3g} s", part, seconds));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "+4.68 %", and what is known of it where it is not proven: " (the best found; nothing below +1.20 % exists)".
std::string answerText(const FoundPlan &answer, bool proven, double lowerBoundSeconds, const FoundPlan &best) {
  std::string text = percentText(stepOf(answer), stepOf(best));
  return proven ? text
                : fmt::format("{} (the best found; nothing below {} exists)", text,
                              percentText(lowerBoundSeconds, stepOf(best)));
}

std::string memoryText(const char *change, const OtherMemory &answer, const FoundPlan &best, double changedBytes) {
  if (!answer.plan)
    return fmt::format("               {}: nothing found that fits\n", change);
  const FoundPlan &found = *answer.plan;
  double seconds = stepOf(found) - stepOf(best);
  if (answer.proven() && (differences(best.plan, found.plan).empty() || seconds == 0))
    return fmt::format("               {}: the same step\n", change);
  return fmt::format("               {}: {}, {:.3g} s a GiB: {}\n", change,
                     answerText(found, answer.proven(), answer.lowerBoundSeconds, best),
                     std::abs(seconds) / (changedBytes / kGiB), planText(found.plan));
}

std::string flipsText(const std::vector<Flip> &flips) {
  std::vector<std::string> texts;
  for (const Flip &flip : flips)
    if (texts.size() < kMostParts)
      texts.push_back(fmt::format("{} x {:.3g}", flip.quantity, flip.factor));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Returns the descriptions of plans outside of the search's space (docs/search.md), which the plan's job keeps.
std::vector<std::string> outsideOf(const Plan &plan) {
  std::vector<std::string> outside;
  if (auto job = plan.others.find("job"); job != plan.others.end() && job->contains("outside"))
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
  text += "  for 1 % more of\n";
  for (const Sensitivity &one : explanation.sensitivities)
    text += fmt::format("               {:<28} {:+.3g} s\n", one.quantity, one.secondsPerPercent);
  text += "what the best plan takes that decides otherwise\n";
  if (std::vector<std::string> outside = outsideOf(plan.plan); !outside.empty())
    text += fmt::format("  (among the plans that the search covers; it leaves out some choices of {})\n",
                        outsideText(outside));
  for (const Alternative &alternative : explanation.alternatives) {
    text += fmt::format("  {:<18} {}\n", alternative.key, decisionText(plan.plan, alternative.key));
    if (!alternative.plan) {
      text += fmt::format("    none: {}\n", alternative.none);
      continue;
    }
    const FoundPlan &other = *alternative.plan;
    text += fmt::format("    {:<10} {}\n", answerText(other, alternative.proven(), alternative.lowerBoundSeconds, plan),
                        planText(other.plan));
    text += fmt::format("                 instead {}; as constraints: {}\n", decisionText(other.plan, alternative.key),
                        constraintsJson(alternative.pins).dump());
    if (std::string slower = slowerText(other, plan); !slower.empty())
      text += fmt::format("                 it loses in {}\n", slower);
    if (!alternative.flips.empty())
      text += fmt::format("                 it wins with {}\n", flipsText(alternative.flips));
  }
  if (std::any_of(explanation.alternatives.begin(), explanation.alternatives.end(),
                  [&](const Alternative &one) { return one.plan && stepOf(*one.plan) < stepOf(plan) * kLess; }))
    text += "some of these are faster than the plan: it was not proven the best; plan again with a larger --budget\n";
  return text;
}

Json toJson(const Explanation &explanation, const FoundPlan &plan) {
  const StageMemory &fullest = plan.simulation.memory[explanation.fullestStage];
  auto planJson = [&](const FoundPlan &one) {
    return Json{
        {"step_seconds", stepOf(one)}, {"device_bytes", mostBytes(one.simulation)}, {"plan", planText(one.plan)}};
  };
  auto maybe = [&](const std::optional<FoundPlan> &one) { return one ? planJson(*one) : Json(); };
  auto memoryJson = [&](const OtherMemory &one) {
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
      for (const Flip &flip : alternative.flips)
        one["wins_with"][flip.quantity] = flip.factor;
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
    if (std::abs(seconds) > kTold * stepOf(one))
      text += fmt::format("               {} {:+.3g} s\n", part, seconds);
  text += fmt::format("  memory       {} -> {} on the fullest device\n", bytesText(mostBytes(one.simulation)),
                      bytesText(mostBytes(other.simulation)));
  std::vector<PlanDifference> list = differences(one.plan, other.plan);
  for (const PlanDifference &difference : list)
    text += fmt::format("  {:<20} {} -> {}\n", difference.key, difference.one, difference.other);
  return list.empty() ? text + "  no decision differs\n" : text;
}

Json differenceJson(const FoundPlan &one, const FoundPlan &other) {
  Json root = {{"step_seconds", {stepOf(one), stepOf(other)}},
               {"device_bytes", {mostBytes(one.simulation), mostBytes(other.simulation)}},
               {"breakdown", Json::object()},
               {"decisions", Json::object()}};
  for (const auto &[part, seconds] : differences(other.simulation.breakdown, one.simulation.breakdown))
    root["breakdown"][part] = seconds;
  for (const PlanDifference &difference : differences(one.plan, other.plan))
    root["decisions"][difference.key] = {difference.one, difference.other};
  return root;
}

std::string toText(const std::vector<ParetoPlan> &plans, double pricePerHour) {
  std::string text = fmt::format("less time, fewer devices or less memory\n  {:>6} {:>12} {:>12}{}  plan\n", "ranks",
                                 "GiB a rank", "step", pricePerHour > 0 ? "   price/step" : "");
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
