// SPDX-License-Identifier: Apache-2.0
#include "ExplainPlacement.h"
#include "kerf/Support/Glob.h"

#include <fmt/format.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;

Result<Report> savedReport(const Plan &plan, const std::string &file) {
  if (!plan.keptKeys.contains("report"))
    return Error{fmt::format("{} has no report; give a plan that `kerf plan -o` wrote", file)};
  return parseReport(plan.keptKeys["report"], file);
}

std::map<std::string, Report::Op> byKey(const Report &report) {
  std::map<std::string, Report::Op> ops;
  for (const Report::Op &op : report.ops)
    ops[op.key] = op;
  return ops;
}

Json differencesOf(const Plan &one, const Report &first, const Plan &other, const Report &second) {
  Json json;
  json["step_seconds"] = {first.stepSeconds, second.stepSeconds};
  json["peak_bytes"] = {first.memory.total, second.memory.total};
  json["mesh"] = {one.meshSizes, other.meshSizes};
  json["strategies"] = Json::object();
  auto ops = byKey(first), others = byKey(second);
  for (const auto &[key, op] : ops)
    if (auto there = others.find(key); there == others.end() || there->second.strategy != op.strategy)
      json["strategies"][key] = {op.strategy, there == others.end() ? "(not there)" : there->second.strategy};
  for (const auto &[key, op] : others)
    if (!ops.contains(key))
      json["strategies"][key] = {"(not there)", op.strategy};
  return json;
}

Result<Answer> compare(const ExplainRequest &request, const Report &first) {
  auto second = savedReport(*request.other, request.otherFile);
  if (!second)
    return second.error();
  Json json = differencesOf(request.plan, first, *request.other, *second);
  std::string text =
      fmt::format("step time  {} -> {}\nmemory     {} -> {}\n", secondsText(first.stepSeconds),
                  secondsText(second->stepSeconds), bytesText(first.memory.total), bytesText(second->memory.total));
  for (const auto &[axis, size] : request.plan.meshSizes)
    if (auto there = request.other->meshSizes.find(axis);
        there != request.other->meshSizes.end() && there->second != size)
      text += fmt::format("mesh.{}  {} -> {}\n", axis, size, there->second);
  for (const auto &[key, pair] : json["strategies"].items())
    text += fmt::format("{}\n  {} -> {}\n", key, pair[0].get<std::string>(), pair[1].get<std::string>());
  return Answer{std::move(json), std::move(text)};
}

/// Explains the operators whose key matches `op`: strategy, seconds, and the cost of the next best strategy.
Result<Answer> explainOps(const std::string &file, const Report &report, const std::string &op) {
  Json found = Json::array();
  std::string text;
  for (const Report::Op &entry : report.ops) {
    if (!globMatch(op, entry.key) && !globMatch("*" + op + "*", entry.key))
      continue;
    found.push_back({{"op", entry.key},
                     {"strategy", entry.strategy},
                     {"calls", entry.calls},
                     {"seconds", entry.seconds},
                     {"other", entry.nextBestStrategy},
                     {"other_seconds", entry.nextBestExtraSeconds}});
    text += fmt::format("{}\n  strategy  {}\n  seconds   {} in {} calls\n", entry.key,
                        entry.strategy.empty() ? "replicated: every rank computes the whole operator" : entry.strategy,
                        secondsText(entry.seconds), entry.calls);
    if (!entry.nextBestStrategy.empty())
      text += fmt::format("  why       any other strategy makes a step slower by {} or more (the next best: {})\n",
                          secondsText(entry.nextBestExtraSeconds), entry.nextBestStrategy);
  }
  if (found.empty())
    return Error{fmt::format("{}: no op's name matches '{}'; `kerf explain {}` lists them", file, op, file)};
  return Answer{std::move(found), std::move(text)};
}

} // namespace

Result<Answer> explainPlacement(const ExplainRequest &request) {
  auto report = savedReport(request.plan, request.file);
  if (!report)
    return report.error();
  if (request.other)
    return compare(request, *report);
  if (!request.op.empty())
    return explainOps(request.file, *report, request.op);
  return Answer{toJson(*report), toText(*report)};
}

} // namespace kerf
