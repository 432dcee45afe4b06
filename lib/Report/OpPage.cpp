// SPDX-License-Identifier: Apache-2.0
// The report of a plan that was searched op by op, and of its training run, as an HTML page.
#include "Html.h"
#include "Rows.h"
#include "Topology.h"
#include "kerf/Report/Report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

using namespace html;

namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string summary(const Report &report) {
  double gap = std::max(0.0, 1 - report.lowerBoundSeconds / report.stepSeconds);
  std::vector<Figure> boxes = {
      {"Step", secondsText(report.stepSeconds), "predicted"},
      {"Gap to the bound", fmt::format("{:.2f} %", 100 * gap),
       gap == 0 ? "proven optimal" : "bound " + secondsText(report.lowerBoundSeconds)},
      {"Compute", secondsText(report.computeSeconds), "kernels"},
      {"Collectives", report.collectiveSeconds > 0 ? secondsText(report.collectiveSeconds) : "none",
       "hidden behind kernels or not"},
      {"Memory of a rank", bytesText(report.memory.total), "of " + bytesText(report.memoryLimitBytes)},
      {"Ranks", fmt::format("{}", report.usedRanks), fmt::format("of {}", report.ranks)}};
  if (report.measuredStepSeconds > 0)
    boxes.insert(boxes.begin() + 1, {"Step, measured", secondsText(report.measuredStepSeconds), "mean of the run"});
  if (double seconds = report.measuredCommunicationSeconds; seconds > 0)
    boxes.insert(boxes.begin() + 2, {"Communication, measured", secondsText(seconds),
                                     secondsText(report.measuredHiddenSeconds) + " of it hidden behind kernels"});
  std::string body = figures(boxes);
  if (std::string worth = memoryWorthText(report); !worth.empty())
    body += note("Memory limits the plan: " + worth + ".");
  if (!report.types.empty()) {
    Table table({{"Numbers", CellKind::Words}, {"Type", CellKind::Words}}, Width::Content);
    for (const Report::Type &type : report.types)
      table.row({type.description, type.type});
    body += table.text();
  }
  for (const std::string &warning : report.warnings)
    body += fmt::format("<p class=\"warning\">{}</p>\n", escaped(warning));
  return body;
}

std::string mesh(const Report &report, const Cluster *cluster) {
  std::string body = fmt::format("<p>{}</p>\n", escaped(meshText(report.mesh)));
  if (!cluster || cluster->ranks() < report.mesh.ranks())
    return body;
  Table table({{"Axis", CellKind::Words},
               {"Ranks", CellKind::Number},
               {"Distance", CellKind::Number},
               {"Location of a group", CellKind::Words},
               {"Links", CellKind::Words}},
              Width::Content);
  for (const AxisPlacement &place : axisPlacements(report.mesh, *cluster))
    table.row({place.name, fmt::format("{}", place.size), fmt::format("{}", place.distance), placementText(place),
               place.links});
  return (report.mesh.axes.empty() ? body : table.text()) + topologyHtml(report.mesh, *cluster);
}

std::string memory(const Report &report) {
  auto shares = [](const Report::Memory &m) {
    std::vector<BarSegment> all;
    auto add = [&](const char *name, const char *pattern, int64_t bytes) {
      all.push_back({name, pattern, static_cast<double>(bytes), bytesText(bytes)});
    };
    add("parameters", "fixed", m.parameters);
    add("gradients", "gradients", m.gradients);
    add("states", "states", m.states);
    add("activations", "activations", m.activations);
    add("inputs", "workspace", m.inputs);
    return all;
  };
  Table table({{"One rank", CellKind::Words},
               {"Parameters", CellKind::Number},
               {"Gradients", CellKind::Number},
               {"States", CellKind::Number},
               {"Activations", CellKind::Number},
               {"Inputs", CellKind::Number},
               {"Total", CellKind::Number},
               {"Of the limit", CellKind::Number}});
  auto limit = static_cast<double>(report.memoryLimitBytes);
  auto row = [&](const char *what, const Report::Memory &m) {
    table.row({what, bytesText(m.parameters), bytesText(m.gradients), bytesText(m.states), bytesText(m.activations),
               bytesText(m.inputs), bytesText(m.total), percent(limit > 0 ? static_cast<double>(m.total) / limit : 0)});
  };
  row("predicted", report.memory);
  auto whole = static_cast<double>(report.memory.total);
  std::string bars = bar(shares(report.memory), whole, "memory of a rank, predicted");
  if (report.measuredMemory) {
    row("measured", *report.measuredMemory);
    bars += bar(shares(*report.measuredMemory), std::max(whole, static_cast<double>(report.measuredMemory->total)),
                "memory of a rank, measured");
  }
  return bars + table.text();
}

/// Returns the group under which an op is listed: the layer ("transformer.h.*" for
/// "transformer.h.*.attn.c_attn/dot_general"), or the outermost module.
std::string layerOf(const std::string &key) {
  size_t star = key.find(".*");
  if (star != std::string::npos)
    return key.substr(0, star + 2);
  size_t slash = key.find('/');
  return slash == std::string::npos || slash == 0 ? "" : key.substr(0, key.find_first_of("./"));
}

std::string operators(const Report &report) {
  std::vector<std::pair<std::string, std::vector<const Report::Op *>>> groups; // in the order of the model
  for (const Report::Op &op : report.ops) {
    std::string layer = layerOf(op.key);
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto &group) { return group.first == layer; });
    if (same == groups.end())
      same = groups.insert(groups.end(), {layer, {}});
    same->second.push_back(&op);
  }
  Table table({{"Operator"},
               {"Sharding (axis: factor)"},
               {"Calls", CellKind::Number},
               {"Seconds", CellKind::Number},
               {"Of the step", CellKind::Number},
               {"Next best strategy"}});
  for (const auto &[layer, ops] : groups) {
    table.group(layer.empty() ? "outside of any module" : layer);
    for (const Report::Op *op : ops)
      table.row(
          {op->key, op->strategy.empty() ? "replicated" : op->strategy, fmt::format("{}", op->calls),
           secondsText(op->seconds), percent(op->seconds / report.stepSeconds),
           op->nextBestStrategy.empty() && op->nextBestExtraSeconds == 0
               ? ""
               : fmt::format("{}: at least +{}", op->nextBestStrategy.empty() ? "replicated" : op->nextBestStrategy,
                             secondsText(op->nextBestExtraSeconds))});
  }
  return table.text();
}

std::string collectives(const Report &report) {
  if (report.collectives.empty())
    return note("None.");
  Table table({{"Collective", CellKind::Words},
               {"Over", CellKind::Words},
               {"Cause"},
               {"Stream", CellKind::Words},
               {"Calls", CellKind::Number},
               {"Bytes each", CellKind::Number},
               {"Seconds", CellKind::Number},
               {"Of the step", CellKind::Number}});
  std::vector<Report::Collective> all = report.collectives;
  std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.seconds > b.seconds; });
  for (const Report::Collective &c : all)
    table.row({c.kind, c.axes, c.cause, c.stream, fmt::format("{}", c.calls), bytesText(c.bytes),
               secondsText(c.seconds), percent(c.seconds / report.stepSeconds)});
  return table.text();
}

std::string alternatives(const Report &report) {
  if (report.alternatives.empty())
    return note("No other plans were kept.");
  Table table({{"Plan"}, {"Step", CellKind::Number}, {"Memory", CellKind::Number}, {"Reason"}});
  for (const Report::Alternative &other : report.alternatives)
    table.row({other.description, std::isfinite(other.stepSeconds) ? secondsText(other.stepSeconds) : "-",
               bytesText(other.peakBytes), other.rejected});
  return table.text();
}

std::string trained(const Report &report) {
  Table table({{"Parameter"}, {"Shape"}, {"Elements", CellKind::Number}}, Width::Content);
  for (const Report::Parameter &parameter : report.trained) {
    int64_t elements = 1;
    for (int64_t size : parameter.shape)
      elements *= size;
    table.row({parameter.name, fmt::format("{}", fmt::join(parameter.shape, " x ")), fmt::format("{}", elements)});
  }
  return table.text();
}

} // namespace

std::string toHtml(const Report &report, const Cluster *cluster) {
  return page(
      "Plan for " + report.model,
      fmt::format("{} of {} ranks of {}: {}", report.usedRanks, report.ranks, report.cluster, meshText(report.mesh)),
      {{"summary", "Summary", summary(report)},
       {"mesh", "Mesh on the cluster", mesh(report, cluster)},
       {"memory", "Memory of one rank", memory(report)},
       {"collectives", "Collectives", collectives(report)},
       {"operators", "Operators", operators(report)},
       {"alternatives", "Other plans", alternatives(report)},
       {"trained", "Trained parameters", trained(report)}});
}

} // namespace kerf
