// SPDX-License-Identifier: Apache-2.0
// The report of a simulated plan as text: the summary that `kerf plan` prints, then tables of everything else.
#include "Rows.h"
#include "Topology.h"
#include "kerf/Report/ExplainText.h"
#include "kerf/Report/Report.h"
#include "kerf/Report/StepReport.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Units.h"

#include <cmath>
#include <fmt/format.h>

namespace kerf {

namespace {

std::string memoryText(const Simulation &simulation) {
  std::string text =
      fmt::format("\nMemory by stage, GiB\n  {:>5} {:>8} {:>9} {:>8} {:>11} {:>9} {:>9} {:>9}  {}\n", "stage",
                  "weights", "gradients", "states", "activations", "workspace", "on device", "limit", "peak in the");
  for (size_t s = 0; s < simulation.memory.size(); ++s) {
    const StageMemory &m = simulation.memory[s];
    text += fmt::format("  {:>5} {:>8.2f} {:>9.2f} {:>8.2f} {:>11.2f} {:>9.2f} {:>9.2f} {:>9.2f}  {}\n", s,
                        m.weights / kGiB, m.gradients / kGiB, m.states / kGiB, m.activations / kGiB, m.workspace / kGiB,
                        m.deviceBytes / kGiB, m.limitBytes / kGiB, m.moment);
  }
  return text;
}

std::string operatorsText(const StepReport &report) {
  std::string text = "\nOperators: seconds of a step on one rank, on the stage where each takes longest\n";
  for (const auto &[segment, count] : report.segments) {
    text += fmt::format("  {} x {}\n", segment, count);
    for (const KernelRow &row : report.kernels)
      if (row.segment == segment)
        text += fmt::format("    {:>11}  x{:<7} {:<16} {:<60} {}\n", secondsText(row.seconds), row.calls, row.pass,
                            row.name, row.cuts);
  }
  return text;
}

std::string collectivesText(const StepReport &report) {
  auto stages = static_cast<int64_t>(report.simulation.memory.size());
  std::string text = "\nCollectives: seconds of a step on one rank, on the stage where each takes longest\n";
  for (const CollectiveRow &row : report.collectives)
    text += fmt::format("  {:>11}  x{:<7} {:<14} over {:<12} {:>10} each  {:<16} {:<12} {}\n", secondsText(row.seconds),
                        row.calls, row.kind, row.axes, bytesText(static_cast<int64_t>(row.bytes)), row.pass,
                        stagesText(row.stages, stages), row.cause);
  return report.collectives.empty() ? text + "  none\n" : text;
}

std::string othersText(const StepReport &report) {
  std::string text = "\nOther plans\n";
  for (const FoundPlan &other : report.others) {
    text += fmt::format("  {:+.2f} %  {:>12}  {}\n",
                        100 * (other.simulation.stepSeconds / report.simulation.stepSeconds - 1),
                        bytesText(maxDeviceBytes(other.simulation)), planText(other.plan));
    text += "            " + lossText(other.simulation, report.simulation) + "\n";
  }
  return text;
}

} // namespace

std::string toText(const StepReport &report) {
  const Simulation &s = report.simulation;
  std::string text = fmt::format("plan for {}\n", report.model);
  for (const auto &[what, value] : decisionTexts(report.plan))
    text += fmt::format("  {:<12} {}\n", what, value);
  text += toText(s, report.mesh.ranks(), report.cluster.name);
  bool proven = report.lowerBoundSeconds && *report.lowerBoundSeconds >= s.stepSeconds;
  if (std::string unused = unusedText(report.mesh.ranks(), report.cluster, proven); !unused.empty())
    text += fmt::format("  {}\n", unused);
  if (report.lowerBoundSeconds)
    text +=
        fmt::format("  bound        {}\n  search       {} search nodes, {} plans simulated, {} layouts of the model\n",
                    boundText(s.stepSeconds, *report.lowerBoundSeconds, report.outside), report.statistics.choices,
                    report.statistics.simulated, report.statistics.layouts);
  text += "\nMesh on the cluster\n";
  for (const AxisPlacement &place : axisPlacements(report.mesh, report.cluster))
    text += fmt::format("  {:<8} {:>5}  {:<40} {}\n", place.name, place.size, placementText(place), place.links);
  text += memoryText(s) + operatorsText(report) + collectivesText(report);
  if (!report.others.empty())
    text += othersText(report);
  if (!report.pareto.empty())
    text += "\n" + toText(report.pareto, report.cluster.pricePerHour);
  for (const std::string &warning : report.warnings)
    text += fmt::format("warning: {}\n", warning);
  return text;
}

} // namespace kerf
