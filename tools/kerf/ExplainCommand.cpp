// SPDX-License-Identifier: Apache-2.0
// kerf explain: prints why a plan was chosen, and how two plans differ.
#include "Options.h"
#include "WholePlan.h"

#include "kerf/Support/Glob.h"
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

struct Explained {
  Plan plan;
  Report report;
};

Result<Explained> load(const std::string &path) {
  auto plan = readPlan(path);
  if (!plan)
    return plan.error();
  if (!plan->keptKeys.contains("report"))
    return Error{fmt::format("{} has no report; give a plan that `kerf plan -o` wrote", path)};
  auto report = parseReport(plan->keptKeys["report"], path);
  if (!report)
    return report.error();
  return Explained{std::move(*plan), std::move(*report)};
}

std::map<std::string, Report::Op> byKey(const Report &report) {
  std::map<std::string, Report::Op> ops;
  for (const Report::Op &op : report.ops)
    ops[op.key] = op;
  return ops;
}

nlohmann::ordered_json differences(const Explained &a, const Explained &b) {
  nlohmann::ordered_json json;
  json["step_seconds"] = {a.report.stepSeconds, b.report.stepSeconds};
  json["peak_bytes"] = {a.report.memory.total, b.report.memory.total};
  json["mesh"] = {a.plan.meshSizes, b.plan.meshSizes};
  json["strategies"] = nlohmann::ordered_json::object();
  auto first = byKey(a.report), second = byKey(b.report);
  for (const auto &[key, op] : first)
    if (auto other = second.find(key); other == second.end() || other->second.strategy != op.strategy)
      json["strategies"][key] = {op.strategy, other == second.end() ? "(not there)" : other->second.strategy};
  for (const auto &[key, op] : second)
    if (!first.contains(key))
      json["strategies"][key] = {"(not there)", op.strategy};
  return json;
}

struct ExplainCommand {
  std::string plan, other, op, trainer;
  std::vector<std::string> whatIf;
  bool json = false;

  int run() {
    auto saved = readPlan(plan);
    if (!saved)
      return fail(saved.error());
    if (isWholePlan(*saved)) {
      if (!op.empty())
        return fail({fmt::format(
            "{} is a whole plan, and --op applies to plans of --search placement only; leave --op out", plan)});
      std::optional<Plan> second;
      if (!other.empty()) {
        auto read = readPlan(other);
        if (!read)
          return fail(read.error());
        if (!isWholePlan(*read))
          return fail(
              {fmt::format("{} has no job, but {} has one; write both plans with `kerf plan -o`", other, plan)});
        second = std::move(*read);
      }
      return explainWholePlan(plan, *saved, other, second, {whatIf, trainer}, json);
    }
    if (!trainer.empty())
      return fail({fmt::format("{} is a plan of --search placement, and --for applies to plans of `kerf plan --search "
                               "whole` only; leave --for out",
                               plan)});
    if (!whatIf.empty())
      return fail({fmt::format("{} is a plan of --search placement, and --what-if applies to plans of `kerf plan "
                               "--search whole` only; leave --what-if out",
                               plan)});
    auto first = load(plan);
    if (!first)
      return fail(first.error());
    if (!other.empty()) {
      auto second = load(other);
      if (!second)
        return fail(second.error());
      auto difference = differences(*first, *second);
      if (json) {
        fmt::print("{}\n", difference.dump(2));
        return 0;
      }
      fmt::print("step time  {} -> {}\nmemory     {} -> {}\n", secondsText(first->report.stepSeconds),
                 secondsText(second->report.stepSeconds), bytesText(first->report.memory.total),
                 bytesText(second->report.memory.total));
      for (const auto &[axis, size] : first->plan.meshSizes)
        if (auto there = second->plan.meshSizes.find(axis);
            there != second->plan.meshSizes.end() && there->second != size)
          fmt::print("mesh.{}  {} -> {}\n", axis, size, there->second);
      for (const auto &[key, pair] : difference["strategies"].items())
        fmt::print("{}\n  {} -> {}\n", key, pair[0].get<std::string>(), pair[1].get<std::string>());
      return 0;
    }
    if (!op.empty())
      return explainOp(*first);
    if (json)
      fmt::print("{}\n", toJson(first->report).dump(2));
    else
      fmt::print("{}", toText(first->report));
    return 0;
  }

  /// Prints the operators whose key matches --op: strategy, seconds, and the cost of the next best strategy.
  int explainOp(const Explained &explained) {
    nlohmann::ordered_json found = nlohmann::ordered_json::array();
    for (const Report::Op &entry : explained.report.ops) {
      if (!globMatch(op, entry.key) && !globMatch("*" + op + "*", entry.key))
        continue;
      found.push_back({{"op", entry.key},
                       {"strategy", entry.strategy},
                       {"calls", entry.calls},
                       {"seconds", entry.seconds},
                       {"other", entry.nextBestStrategy},
                       {"other_seconds", entry.nextBestExtraSeconds}});
      if (json)
        continue;
      fmt::print("{}\n  strategy  {}\n  seconds   {} in {} calls\n", entry.key,
                 entry.strategy.empty() ? "replicated: every rank computes the whole operator" : entry.strategy,
                 secondsText(entry.seconds), entry.calls);
      if (!entry.nextBestStrategy.empty())
        fmt::print("  why       any other strategy makes a step slower by {} or more (the next best: {})\n",
                   secondsText(entry.nextBestExtraSeconds), entry.nextBestStrategy);
    }
    if (found.empty())
      return fail({fmt::format("{}: no op's name matches '{}'; `kerf explain {}` lists them", plan, op, plan)});
    if (json)
      fmt::print("{}\n", found.dump(2));
    return 0;
  }
};

} // namespace

void addExplainCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<ExplainCommand>(app, "explain",
                                                   "Explain why a plan was chosen, or how two plans differ.\n"
                                                   "Example: kerf explain plan.json --op attn.c_proj",
                                                   status);
  sub->add_option("PLAN", command->plan, "plan to explain: plan.json, as `kerf plan -o` wrote it")->required();
  sub->add_option("OTHER", command->other, "second plan.json; the output is the differences between the two plans");
  sub->add_option("--op", command->op,
                  "explain only the operators whose name matches this glob pattern (plans of --search placement)");
  sub->add_option(
      "--what-if", command->whatIf,
      "find the best plan after scaling one quantity of the job (plans of --search whole): a quantity, * or /, and a "
      "number above 0, such as \"infiniband.bandwidth*2\", \"device.memory*1.5\", \"ranks/2\" or "
      "\"global_batch*2\" (repeatable)");
  addTrainer(*sub, command->trainer);
  sub->add_flag("--json", command->json, "print JSON instead of text");
}

} // namespace kerf::tool
