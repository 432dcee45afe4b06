// SPDX-License-Identifier: Apache-2.0
// The report of a plan that was searched op by op, as text for a terminal.
#include "kerf/Report/Report.h"

#include "Rows.h"
#include "kerf/Package/Package.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

// The value of a byte of memory holds only near the limit and falls with every further byte, so the text is about 1
// % more.
std::string memoryWorthText(const Report &report) {
  constexpr double kShare = 0.01;
  double bytes = kShare * static_cast<double>(report.memoryLimitBytes), saved = report.secondsPerByte * bytes;
  constexpr double kWorthSaying = 1e-4; // of the step
  if (!(saved > kWorthSaying * report.stepSeconds) || saved >= report.stepSeconds)
    return "";
  return fmt::format("1 % more memory ({}) would shorten the step by at most about {}", bytesText(bytes),
                     secondsText(saved));
}

std::string meshText(const Mesh &mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : mesh.axes)
    axes.push_back(fmt::format("{} {}", axis.name, axis.size));
  return axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " x "));
}

namespace {

constexpr size_t kMostLines = 24; // most lines of ops and of collectives in the text; JSON has all

std::string memoryLine(const char *what, const Report::Memory &m) {
  return fmt::format("  {:<10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", what, bytesText(m.parameters),
                     bytesText(m.gradients), bytesText(m.states), bytesText(m.activations), bytesText(m.inputs),
                     bytesText(m.total));
}

/// Returns the passes that changed a stage's list of steps, and the sizes of the stage's buckets.
std::string stepsText(const Report::StageSteps &steps) {
  std::string text;
  for (const Report::StepPass &pass : steps.passes)
    if (pass.changed > 0)
      text += fmt::format("  {:<9} {:>6}  {:<20} {}\n", text.empty() ? fmt::format("stage {}", steps.stage) : "",
                          pass.changed, pass.name, pass.description);
  if (steps.buckets.empty())
    return text;
  int64_t collectives = 0, bytes = 0, most = 0;
  for (const Report::Bucket &bucket : steps.buckets) {
    collectives += bucket.collectives;
    bytes += bucket.bytes;
    most = std::max(most, bucket.bytes);
  }
  return text + fmt::format("  {:<9} {:>6}  buckets of {} collectives: {}, the largest {}\n", "", steps.buckets.size(),
                            collectives, bytesText(bytes), bytesText(most));
}

template <typename T> std::vector<T> dearest(std::vector<T> list) {
  std::stable_sort(list.begin(), list.end(), [](const T &a, const T &b) { return a.seconds > b.seconds; });
  return list;
}

} // namespace

std::string toText(const std::vector<Report::StageSteps> &steps) {
  std::string text;
  for (const Report::StageSteps &stage : steps)
    text += stepsText(stage);
  return text.empty() ? ""
                      : "\nChanges to the list of steps: instructions that each pass moved, joined or marked, over all "
                        "microbatches\n" +
                            text;
}

std::string toText(const Report &report) {
  constexpr double kWorthSaying = 1e-4; // of the step
  std::string text;
  auto line = [&](const std::string &s) { text += s + "\n"; };
  line(fmt::format("Plan for {} on {}", report.model, report.cluster));
  line(fmt::format("  mesh       {} ({} of {} ranks)", meshText(report.mesh), report.usedRanks, report.ranks));
  bool searched = report.execution.empty();
  if (!searched)
    line("  execution  " + report.execution);
  if (searched)
    line(fmt::format(
        "  step time  {} predicted ({} compute, {} collectives; lower bound for all shardings over data and model: {})",
        secondsText(report.stepSeconds), secondsText(report.computeSeconds), secondsText(report.collectiveSeconds),
        secondsText(report.lowerBoundSeconds)));
  else if (report.stepSeconds > 0)
    line(fmt::format("  step time  {} predicted", secondsText(report.stepSeconds)));
  else
    line("  step time  not predicted here; kerf simulate predicts the time of such a plan");
  if (report.measuredStepSeconds > 0)
    line(fmt::format("             {} measured", secondsText(report.measuredStepSeconds)));
  if (double seconds = report.measuredCommunicationSeconds, hidden = report.measuredHiddenSeconds; seconds > 0)
    line(fmt::format("             {} of communication measured: {} hidden, {} exposed", secondsText(seconds),
                     secondsText(hidden), secondsText(seconds - hidden)));
  int64_t elements = 0;
  for (const Report::Parameter &parameter : report.trained)
    elements += elementsOf(parameter.shape);
  line(fmt::format("  trained    {} parameters in {} tensors", elements, report.trained.size()));

  for (const Report::Type &type : report.types)
    line(fmt::format("  {:<10} {}: {}", &type == &report.types.front() ? "types" : "", type.description, type.type));

  line(searched ? "\nMemory of one rank" : "\nMemory of one rank, on the stage that needs most");
  line(fmt::format("  {:<10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}", "", "parameters", "gradients", "states",
                   "activations", "inputs", "total"));
  text += memoryLine("predicted", report.memory);
  if (report.measuredMemory)
    text += memoryLine("measured", *report.measuredMemory);
  line(fmt::format("  limit      {}", bytesText(report.memoryLimitBytes)));
  if (std::string worth = memoryWorthText(report); !worth.empty())
    line("  " + worth);

  if (searched)
    line("\nStrategies (mesh axis: the factor of the op that it shards), by predicted time");
  size_t shown = 0;
  for (const Report::Op &op : dearest(report.ops))
    if (shown++ < kMostLines)
      line(fmt::format("  {:>11}  x{:<4} {:<58} {}{}", secondsText(op.seconds), op.calls, op.key,
                       op.strategy.empty() ? "replicated" : op.strategy,
                       op.nextBestExtraSeconds >= kWorthSaying * report.stepSeconds
                           ? fmt::format("   (any other strategy: at least +{})", secondsText(op.nextBestExtraSeconds))
                           : ""));
  if (report.ops.size() > kMostLines)
    line(fmt::format("  ... and {} more ops (--report FILE.json has all)", report.ops.size() - kMostLines));

  line(searched ? "\nCollectives, by predicted time"
                : "\nCollectives of all stages, of one microbatch and of the update, by predicted time");
  if (report.collectives.empty())
    line("  none");
  shown = 0;
  for (const Report::Collective &c : dearest(report.collectives))
    if (shown++ < kMostLines)
      line(fmt::format("  {:>11}  x{:<4} {:<18} over {:<12} {:>10} each   {}", secondsText(c.seconds), c.calls, c.kind,
                       c.axes, bytesText(c.bytes), c.cause));
  if (report.collectives.size() > kMostLines)
    line(fmt::format("  ... and {} more (--report FILE.json has all)", report.collectives.size() - kMostLines));

  text += toText(report.steps);

  if (!report.alternatives.empty()) {
    line("\nRunners-up");
    for (const Report::Alternative &other : report.alternatives)
      line(fmt::format("  {:<60} {:>11} {:>11}  {}", other.description,
                       std::isfinite(other.stepSeconds) ? secondsText(other.stepSeconds) : "-",
                       bytesText(other.peakBytes), other.rejected));
  }
  for (const std::string &warning : report.warnings)
    line("warning: " + warning);
  return text;
}

} // namespace kerf
