// SPDX-License-Identifier: Apache-2.0
// The report of a simulated plan as an HTML page.
#include "Html.h"
#include "Pareto.h"
#include "Rows.h"
#include "Timeline.h"
#include "Topology.h"
#include "kerf/Report/Report.h"
#include "kerf/Report/StepReport.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kerf {

using namespace html;

namespace {

constexpr const char *kTimes = "\xC3\x97"; // U+00D7

std::string gib(double bytes) { return fmt::format("{:.2f}", bytes / kGiB); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// Returns a number with its thousands grouped: "44,342", "12.3".
std::string grouped(double value) {
  if (value < 1000)
    return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}
std::string secondsOrNone(double seconds) { return seconds > 0 ? secondsText(seconds) : "0"; }

size_t fullest(const Simulation &s) {
  size_t most = 0;
  for (size_t i = 1; i < s.memory.size(); ++i)
    if (s.memory[i].deviceBytes / s.memory[i].limitBytes > s.memory[most].deviceBytes / s.memory[most].limitBytes)
      most = i;
  return most;
}

/// Returns the parts of the step time, which add up to the step time. Parts of 0 seconds are left out.
std::vector<BarSegment> partsOf(const Breakdown &b) {
  std::vector<BarSegment> parts = {{"forward", "forward", b.forward, secondsText(b.forward)},
                                   {"recomputed", "recompute", b.recompute, secondsText(b.recompute)},
                                   {"backward", "backward", b.backward, secondsText(b.backward)}};
  for (const auto &[axis, seconds] : b.exposed)
    parts.push_back({"waiting for " + axis, "waiting", seconds, secondsText(seconds)});
  parts.push_back({"optimizer", "optimizer", b.optimizer, secondsText(b.optimizer)});
  parts.push_back({"bubble", "bubble", b.bubble, secondsText(b.bubble)});
  std::erase_if(parts, [](const BarSegment &share) { return share.value <= 0; });
  return parts;
}

std::string summary(const StepReport &report) {
  const Simulation &s = report.simulation;
  const StageMemory &most = s.memory[fullest(s)];
  std::vector<Figure> boxes = {
      {"Step", secondsText(s.stepSeconds), fmt::format("{} samples", report.plan.globalBatch)},
      {"Throughput", grouped(s.tokensPerSecond) + " /s", "tokens, or samples for models without tokens"},
      {"Model FLOPs utilization", percent(s.modelFlopsUtilization), "of peak FLOP/s, without recomputation"},
      {"Fullest device", gib(most.deviceBytes) + " GiB",
       fmt::format("of {} GiB: {}", gib(most.limitBytes), s.fits ? "fits" : "does not fit")},
      {"Ranks", fmt::format("{}", report.mesh.ranks()),
       report.mesh.ranks() < report.cluster.ranks() ? fmt::format("of {}", report.cluster.ranks()) : "all"}};
  bool proven = report.lowerBoundSeconds && *report.lowerBoundSeconds >= s.stepSeconds;
  if (report.lowerBoundSeconds)
    boxes.insert(boxes.begin() + 1,
                 {"Gap to the bound",
                  fmt::format("{:.2f} %", 100 * optimalityGap(s.stepSeconds, *report.lowerBoundSeconds)),
                  proven ? "proven optimal" : "bound " + secondsText(*report.lowerBoundSeconds)});
  std::string body = figures(boxes);
  if (!s.fits)
    body += fmt::format("<p class=\"fails\"><strong>Does not fit:</strong> stage {} needs {} GiB of {} GiB.</p>\n",
                        fullest(s), gib(most.deviceBytes), gib(most.limitBytes));
  Table table({{"Decision"}, {""}}, Width::Content);
  for (const auto &[what, value] : decisionTexts(report.plan))
    table.row({what, value});
  if (std::string unused = unusedText(report.mesh.ranks(), report.cluster, proven); !unused.empty())
    table.row({"unused", unused});
  if (report.lowerBoundSeconds) {
    table.row({"bound", boundText(s.stepSeconds, *report.lowerBoundSeconds, report.outside)});
    table.row(
        {"search", fmt::format("{} search nodes, {} plans simulated, {} layouts of the model",
                               report.statistics.choices, report.statistics.simulated, report.statistics.layouts)});
  }
  body += table.text();
  for (const std::string &warning : report.warnings)
    body += fmt::format("<p class=\"warning\">{}</p>\n", escaped(warning));
  return body;
}

std::string mesh(const StepReport &report) {
  Table table({{"Axis", CellKind::Words},
               {"Ranks", CellKind::Number},
               {"Distance", CellKind::Number},
               {"Location of a group", CellKind::Words},
               {"Links", CellKind::Words}},
              Width::Content);
  for (const AxisPlacement &place : axisPlacements(report.mesh, report.cluster))
    table.row({place.name, fmt::format("{}", place.size), fmt::format("{}", place.distance), placementText(place),
               place.links});
  std::string body = report.mesh.axes.empty() ? note("One rank.") : table.text();
  body += topologyHtml(report.mesh, report.cluster);
  bool staged = report.mesh.find("stage") >= 0;
  std::string last = report.mesh.axes.empty() ? "" : report.mesh.axes.back().name;
  return body +
         note(fmt::format(
             "Each box is one kind of node of {}. Each square is a rank, with the number of its {}.{}",
             report.cluster.name, staged ? "stage" : "rank",
             last.empty() ? "" : fmt::format(" An outline is a group of ranks along {}, the innermost axis.", last)));
}

std::string timeline(const StepReport &report, const TimelineView &view) {
  const Simulation &s = report.simulation;
  bool recomputes = s.breakdown.recompute > 0,
       splits = std::any_of(view.events.begin(), view.events.end(), [](const TraceEvent &event) {
         return event.task && event.task->kind == TaskKind::WeightGradient;
       });
  std::vector<std::pair<std::string, std::string>> colours = {
      {"forward", "forward (F)"}, {"backward", splits ? "input gradient (I)" : "backward (B)"}};
  if (splits)
    colours.emplace_back("weights", "weight gradient (W)");
  if (recomputes)
    colours.emplace_back("recompute", "recomputation, as a share of the task");
  colours.insert(colours.end(), {{"waiting", "waiting for collectives while no kernel runs, as a share of the task"},
                                 {"optimizer", "optimizer"},
                                 {"collectives", "communication: sends between stages, reductions of gradients"},
                                 {"bubble", "idle"}});
  std::string said =
      fmt::format("{} microbatches; the number in a task is the number of its microbatch.", report.microbatches);
  if (report.plan.schedule.chunks > 1)
    said += " The number after the dot is the chunk.";
  if (view.gapEnd > view.gapBegin)
    said += fmt::format(" The time from {} to {} is left out: {} more microbatches of the same pattern.",
                        secondsText(view.gapBegin), secondsText(view.gapEnd), view.hiddenMicrobatches);
  if (splits)
    said += " A stage begins its next step as soon as its own work is done, so the step time is the longest stage's "
            "time, which "
            "is less than the length of the drawing.";
  if (view.stages.size() < s.memory.size())
    said += fmt::format(" {} of {} stages are drawn.", view.stages.size(), s.memory.size());
  return legend(colours) + timelineHtml(view, s) +
         note(said + " kerf simulate --trace writes every task and message for Perfetto.");
}

std::string memory(const StepReport &report, const TimelineView &view) {
  const Simulation &s = report.simulation;
  std::string body = legend({{"fixed", "weights, gradients, optimizer states"},
                             {"activations", "activations, workspace, driver and fragmentation"}});
  body += memoryOverTimeHtml(view, s) +
          note("The dashed line is the memory of the device. Each step of the curve is a task of the timeline above.");
  Table table({{"Stage", CellKind::Number},
               {"Weights", CellKind::Number},
               {"Gradients", CellKind::Number},
               {"States", CellKind::Number},
               {"Activations", CellKind::Number},
               {"Workspace", CellKind::Number},
               {"Allocated", CellKind::Number},
               {"On device", CellKind::Number},
               {"Limit", CellKind::Number},
               {"Peak in the", CellKind::Words}});
  for (size_t i = 0; i < s.memory.size(); ++i) {
    const StageMemory &m = s.memory[i];
    table.row({fmt::format("{}", i), gib(m.weights), gib(m.gradients), gib(m.states), gib(m.activations),
               gib(m.workspace), gib(m.peakBytes), gib(m.deviceBytes), gib(m.limitBytes), m.moment});
  }
  body += "<h3>At the peak of each stage, GiB</h3>\n" + table.text();
  size_t most = fullest(s);
  Table largest({{"Largest tensors"}, {"GiB", CellKind::Number}, {"Of the device", CellKind::Number}}, Width::Content);
  for (const auto &[name, bytes] : s.memory[most].largest)
    largest.row({name, gib(bytes), percent(bytes / s.memory[most].limitBytes)});
  return body + fmt::format("<h3>Stage {}, the fullest, in the {}</h3>\n", most, escaped(s.memory[most].moment)) +
         largest.text();
}

std::string breakdown(const StepReport &report) {
  const Simulation &s = report.simulation;
  const Breakdown &b = s.breakdown;
  std::vector<BarSegment> parts = partsOf(b);
  std::string body = bar(parts, s.stepSeconds, "step time of the busiest stage");
  Table table({{"Part", CellKind::Words}, {"Seconds", CellKind::Number}, {"Of the step", CellKind::Number}},
              Width::Content);
  for (const BarSegment &part : parts)
    table.row({part.name, part.valueText, percent(part.value / s.stepSeconds)});
  if (b.collectives.empty())
    return body + table.text();
  Table collectives({{"Collectives over", CellKind::Words},
                     {"Total", CellKind::Number},
                     {"Exposed", CellKind::Number},
                     {"Hidden behind kernels", CellKind::Number}},
                    Width::Content);
  for (const auto &[axis, seconds] : b.collectives) {
    auto exposed = b.exposed.find(axis);
    double waited = exposed == b.exposed.end() ? 0 : exposed->second;
    collectives.row({axis, secondsOrNone(seconds), secondsOrNone(waited), secondsOrNone(seconds - waited)});
  }
  return body + "<div class=\"beside\">\n" + table.text() + collectives.text() + "</div>\n" +
         note("Seconds of the busiest stage; the parts of the first table add up to the step.");
}

std::string operators(const StepReport &report) {
  auto stages = static_cast<int64_t>(report.simulation.memory.size());
  Table table({{"Operator"},
               {"Pass", CellKind::Words},
               {"Sharding (axis: factor)"},
               {"Stages", CellKind::Words},
               {"Calls", CellKind::Number},
               {"Seconds", CellKind::Number},
               {"Of the step", CellKind::Number}});
  for (const auto &[segment, count] : report.segments) {
    double seconds = 0;
    for (const KernelRow &row : report.kernels)
      seconds += row.segment == segment ? row.seconds : 0;
    table.group(fmt::format("{} {} {}: {} of a step", segment, kTimes, count, secondsText(seconds)));
    for (const KernelRow &row : report.kernels)
      if (row.segment == segment)
        table.row({row.name, row.pass, row.cuts.empty() ? "not sharded" : row.cuts, stagesText(row.stages, stages),
                   fmt::format("{}", row.calls), secondsText(row.seconds),
                   percent(row.seconds / report.simulation.stepSeconds)});
  }
  return table.text() + note("Calls and seconds are those of one rank, on the stage where the operator takes longest. "
                             "In addition to this "
                             "sharding, data splits the batch and stage splits the layers. Factors are those of the "
                             "operator's sharding "
                             "rule (docs/operators.md).");
}

std::string collectives(const StepReport &report) {
  if (report.collectives.empty())
    return note("There are none: one rank holds everything.");
  auto stages = static_cast<int64_t>(report.simulation.memory.size());
  Table table({{"Collective", CellKind::Words},
               {"Over", CellKind::Words},
               {"Cause"},
               {"Pass", CellKind::Words},
               {"Stages", CellKind::Words},
               {"Calls", CellKind::Number},
               {"Bytes each", CellKind::Number},
               {"Seconds", CellKind::Number}});
  for (const CollectiveRow &row : report.collectives)
    table.row({row.kind, row.axes, row.cause, row.pass, stagesText(row.stages, stages), fmt::format("{}", row.calls),
               bytesText(static_cast<int64_t>(row.bytes)), secondsText(row.seconds)});
  return table.text() +
         note("Calls and seconds are those of one step on one rank, on the stage where the collective takes longest. "
              "Seconds include those that are hidden behind kernels.");
}

std::string alternatives(const StepReport &report) {
  if (report.others.empty())
    return note("No other plans were requested: kerf plan --top K lists the K best plans.");
  double longest = report.simulation.stepSeconds;
  for (const FoundPlan &other : report.others)
    longest = std::max(longest, other.simulation.stepSeconds);
  Table table(
      {{"Plan"}, {"Step", CellKind::Number}, {"Slower", CellKind::Number}, {"GiB", CellKind::Number}, {"Difference"}});
  auto row = [&](const Plan &plan, const Simulation &s, const std::string &where) {
    table.rowWithMarkup(escaped(planText(plan)) + bar(partsOf(s.breakdown), longest, "its step"),
                        {secondsText(s.stepSeconds),
                         fmt::format("{:+.2f} %", 100 * (s.stepSeconds / report.simulation.stepSeconds - 1)),
                         gib(maxDeviceBytes(s)), where});
  };
  row(report.plan, report.simulation, "the plan of this report");
  for (const FoundPlan &other : report.others)
    row(other.plan, other.simulation, lossText(other.simulation, report.simulation));
  return legend({{"forward", "forward"},
                 {"recompute", "recomputed"},
                 {"backward", "backward"},
                 {"waiting", "waiting for collectives"},
                 {"optimizer", "optimizer"},
                 {"bubble", "bubble"}}) +
         table.text();
}

} // namespace

std::string toHtml(const StepReport &report) {
  TimelineView view = timelineView(report.simulation);
  std::vector<Section> sections = {{"summary", "Summary", summary(report)},
                                   {"mesh", "Mesh on the cluster", mesh(report)},
                                   {"breakdown", "Where the step's time goes", breakdown(report)},
                                   {"timeline", "Timeline of the pipeline", timeline(report, view)},
                                   {"memory", "Memory over time", memory(report, view)},
                                   {"collectives", "Collectives", collectives(report)},
                                   {"operators", "Operators", operators(report)},
                                   {"alternatives", "Other plans", alternatives(report)}};
  if (!report.pareto.empty())
    sections.push_back({"pareto", "Time against memory", paretoHtml(report.pareto, report.cluster.pricePerHour)});
  return page("Plan for " + report.model,
              fmt::format("{} ranks of {}: {}", report.mesh.ranks(), report.cluster.name, planText(report.plan)),
              sections);
}

} // namespace kerf
