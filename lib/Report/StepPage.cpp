// SPDX-License-Identifier: Apache-2.0
// The report of a simulated plan as a page.
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

/// "44,342", "12.3".
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

/// The parts that a step's seconds are the sum of.
std::vector<Share> partsOf(const Breakdown &b) {
  std::vector<Share> parts = {{"forward", "forward", b.forward, secondsText(b.forward)},
                              {"recomputed", "recompute", b.recompute, secondsText(b.recompute)},
                              {"backward", "backward", b.backward, secondsText(b.backward)}};
  for (const auto &[axis, seconds] : b.exposed)
    parts.push_back({"waiting for " + axis, "waiting", seconds, secondsText(seconds)});
  parts.push_back({"optimizer", "optimizer", b.optimizer, secondsText(b.optimizer)});
  parts.push_back({"bubble", "bubble", b.bubble, secondsText(b.bubble)});
  std::erase_if(parts, [](const Share &share) { return share.value <= 0; });
  return parts;
}

std::string summary(const StepReport &report) {
  const Simulation &s = report.simulation;
  const StageMemory &most = s.memory[fullest(s)];
  std::vector<Figure> boxes = {
      {"Step", secondsText(s.stepSeconds), fmt::format("{} samples", report.plan.globalBatch)},
      {"Throughput", grouped(s.tokensPerSecond) + " /s", "tokens; samples, where there are none"},
      {"Of peak", percent(s.modelFlopsUtilization), "model FLOPs, nothing recomputed"},
      {"Fullest device", gib(most.deviceBytes) + " GiB",
       fmt::format("of {} GiB: {}", gib(most.limitBytes), s.fits ? "fits" : "does not fit")},
      {"Ranks", fmt::format("{}", report.mesh.ranks()),
       report.mesh.ranks() < report.cluster.ranks() ? fmt::format("of {}", report.cluster.ranks()) : "all"}};
  bool proven = report.lowerBoundSeconds && *report.lowerBoundSeconds >= s.stepSeconds;
  if (report.lowerBoundSeconds)
    boxes.insert(boxes.begin() + 1,
                 {"Gap to the bound", fmt::format("{:.2f} %", 100 * gapOf(s.stepSeconds, *report.lowerBoundSeconds)),
                  proven ? "proven the best" : "bound " + secondsText(*report.lowerBoundSeconds)});
  std::string body = figures(boxes);
  if (!s.fits)
    body += fmt::format("<p class=\"fails\"><strong>Does not fit:</strong> stage {} needs {} GiB of {} GiB.</p>\n",
                        fullest(s), gib(most.deviceBytes), gib(most.limitBytes));
  Table table({{"Decided"}, {""}}, Width::Content);
  for (const auto &[what, value] : decisions(report.plan))
    table.row({what, value});
  if (std::string unused = unusedText(report.mesh.ranks(), report.cluster, proven); !unused.empty())
    table.row({"unused", unused});
  if (report.lowerBoundSeconds) {
    table.row({"bound", boundText(s.stepSeconds, *report.lowerBoundSeconds, report.outside)});
    table.row(
        {"search", fmt::format("{} choices, {} plans simulated, {} layouts of the model", report.statistics.choices,
                               report.statistics.simulated, report.statistics.layouts)});
  }
  body += table.text();
  for (const std::string &warning : report.warnings)
    body += fmt::format("<p class=\"warning\">{}</p>\n", escaped(warning));
  return body;
}

std::string mesh(const StepReport &report) {
  Table table({{"Axis", Cells::Words},
               {"Ranks", Cells::Number},
               {"Distance", Cells::Number},
               {"Where a group of it lies", Cells::Words},
               {"Links", Cells::Words}},
              Width::Content);
  for (const AxisPlace &place : placesOf(report.mesh, report.cluster))
    table.row(
        {place.name, fmt::format("{}", place.size), fmt::format("{}", place.distance), placeText(place), place.links});
  std::string body = report.mesh.axes.empty() ? note("One rank.") : table.text();
  body += topologyHtml(report.mesh, report.cluster);
  bool staged = report.mesh.find("stage") >= 0;
  std::string last = report.mesh.axes.empty() ? "" : report.mesh.axes.back().name;
  return body +
         note(fmt::format("Boxes are nodes of {}, one of each kind; squares are ranks, their number is the {}.{}",
                          report.cluster.name, staged ? "stage" : "rank",
                          last.empty() ? "" : fmt::format(" Outlines: a group of {}, the innermost axis.", last)));
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
    colours.emplace_back("recompute", "computed again, its share of the task");
  colours.insert(colours.end(), {{"waiting", "no kernel runs: waiting for collectives, its share of the task"},
                                 {"optimizer", "optimizer"},
                                 {"collectives", "communication: sends between stages, reductions of gradients"},
                                 {"bubble", "idle"}});
  std::string said = fmt::format("{} microbatches; the number in a task is its microbatch.", report.microbatches);
  if (report.plan.schedule.chunks > 1)
    said += " After the dot: the chunk.";
  if (view.end > view.begin)
    said += fmt::format(" {} to {} is left out: {} microbatches more of the same.", secondsText(view.begin),
                        secondsText(view.end), view.hidden);
  if (splits)
    said +=
        " A stage begins its next step when its own is done: a step is the longest stage's time, not the drawing's.";
  if (view.stages.size() < s.memory.size())
    said += fmt::format(" {} of {} stages are drawn.", view.stages.size(), s.memory.size());
  return legend(colours) + timelineHtml(view, s) +
         note(said + " kerf simulate --trace writes every task and message for Perfetto.");
}

std::string memory(const StepReport &report, const TimelineView &view) {
  const Simulation &s = report.simulation;
  std::string body = legend({{"fixed", "weights, gradients, optimizer states"},
                             {"activations", "activations, workspace, driver and fragmentation"}});
  body += memoryOverTimeHtml(view, s) + note("Dashed: what the device has. Steps are tasks of the timeline above.");
  Table table({{"Stage", Cells::Number},
               {"Weights", Cells::Number},
               {"Gradients", Cells::Number},
               {"States", Cells::Number},
               {"Activations", Cells::Number},
               {"Workspace", Cells::Number},
               {"Allocated", Cells::Number},
               {"On device", Cells::Number},
               {"Limit", Cells::Number},
               {"Most is held in the", Cells::Words}});
  for (size_t i = 0; i < s.memory.size(); ++i) {
    const StageMemory &m = s.memory[i];
    table.row({fmt::format("{}", i), gib(m.weights), gib(m.gradients), gib(m.states), gib(m.activations),
               gib(m.workspace), gib(m.peakBytes), gib(m.deviceBytes), gib(m.limitBytes), m.moment});
  }
  body += "<h3>At the peak of each stage, GiB</h3>\n" + table.text();
  size_t most = fullest(s);
  Table largest({{"Largest tensors"}, {"GiB", Cells::Number}, {"Of the device", Cells::Number}}, Width::Content);
  for (const auto &[name, bytes] : s.memory[most].largest)
    largest.row({name, gib(bytes), percent(bytes / s.memory[most].limitBytes)});
  return body + fmt::format("<h3>Stage {}, the fullest, in the {}</h3>\n", most, escaped(s.memory[most].moment)) +
         largest.text();
}

std::string breakdown(const StepReport &report) {
  const Simulation &s = report.simulation;
  const Breakdown &b = s.breakdown;
  std::vector<Share> parts = partsOf(b);
  std::string body = bar(parts, s.stepSeconds, "step time of the busiest stage");
  Table table({{"Part", Cells::Words}, {"Seconds", Cells::Number}, {"Of the step", Cells::Number}}, Width::Content);
  for (const Share &part : parts)
    table.row({part.name, part.said, percent(part.value / s.stepSeconds)});
  if (b.collectives.empty())
    return body + table.text();
  Table collectives({{"Collectives over", Cells::Words},
                     {"In all", Cells::Number},
                     {"Waited for", Cells::Number},
                     {"Beside kernels", Cells::Number}},
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
               {"Pass", Cells::Words},
               {"Cut (axis: factor)"},
               {"Stages", Cells::Words},
               {"Calls", Cells::Number},
               {"Seconds", Cells::Number},
               {"Of the step", Cells::Number}});
  for (const auto &[segment, count] : report.segments) {
    double seconds = 0;
    for (const KernelRow &row : report.kernels)
      seconds += row.segment == segment ? row.seconds : 0;
    table.group(fmt::format("{} {} {}: {} of a step", segment, kTimes, count, secondsText(seconds)));
    for (const KernelRow &row : report.kernels)
      if (row.segment == segment)
        table.row({row.name, row.pass, row.cuts.empty() ? "not cut" : row.cuts, stagesText(row.stages, stages),
                   fmt::format("{}", row.calls), secondsText(row.seconds),
                   percent(row.seconds / report.simulation.stepSeconds)});
  }
  return table.text() +
         note("Of one rank of the stage that has most of it. Beside these cuts every operator works on its "
              "own microbatches: data cuts the batch, stage the layers. Factors are those of the operator's "
              "sharding rule (docs/operators.md).");
}

std::string collectives(const StepReport &report) {
  if (report.collectives.empty())
    return note("None: one rank holds everything.");
  auto stages = static_cast<int64_t>(report.simulation.memory.size());
  Table table({{"Collective", Cells::Words},
               {"Over", Cells::Words},
               {"Cause"},
               {"Pass", Cells::Words},
               {"Stages", Cells::Words},
               {"Calls", Cells::Number},
               {"Bytes each", Cells::Number},
               {"Seconds", Cells::Number}});
  for (const CollectiveRow &row : report.collectives)
    table.row({row.kind, row.axes, row.cause, row.pass, stagesText(row.stages, stages), fmt::format("{}", row.calls),
               bytesText(static_cast<int64_t>(row.bytes)), secondsText(row.seconds)});
  return table.text() + note("Of a step, on one rank of the stage that has most of it; hidden behind kernels or not.");
}

std::string alternatives(const StepReport &report) {
  if (report.others.empty())
    return note("None were asked for: kerf plan --top K lists the next best.");
  double longest = report.simulation.stepSeconds;
  for (const FoundPlan &other : report.others)
    longest = std::max(longest, other.simulation.stepSeconds);
  Table table({{"Plan"}, {"Step", Cells::Number}, {"Slower", Cells::Number}, {"GiB", Cells::Number}, {"Where"}});
  auto row = [&](const Plan &plan, const Simulation &s, const std::string &where) {
    table.rowWithMarkup(escaped(planText(plan)) + bar(partsOf(s.breakdown), longest, "its step"),
                        {secondsText(s.stepSeconds),
                         fmt::format("{:+.2f} %", 100 * (s.stepSeconds / report.simulation.stepSeconds - 1)),
                         gib(mostBytes(s)), where});
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
