// SPDX-License-Identifier: Apache-2.0
#include "Html.h"
#include "Timeline.h"
#include "kerf/Report/Report.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf {

using namespace html;

namespace {

constexpr double kLeft = 64, kWidth = 1120, kGap = 26; // pixels: stage names, the plot, the gap in the plot
constexpr double kLetter = 6.2;
constexpr size_t kFewStages = 4; // up to so many stages have taller memory charts

/// Maps seconds of the step to horizontal pixels, leaving out the gap of the view.
class Scale {
public:
  explicit Scale(const TimelineView &view) : view(view), isCut(view.gapEnd > view.gapBegin) {
    double shown = isCut ? view.gapBegin + view.endSeconds - view.gapEnd : view.endSeconds;
    perSecond = shown > 0 ? (kWidth - (isCut ? kGap : 0)) / shown : 0;
  }
  /// Map a time into the window before the gap, or after the gap; times outside of the window map to its border.
  double begins(double seconds) const { return std::min(seconds, view.gapBegin) * perSecond + kLeft; }
  double ends(double seconds) const {
    return kLeft + kWidth - (view.endSeconds - std::max(seconds, view.gapEnd)) * perSecond;
  }

  /// Returns the parts of an event that are shown, as pixel intervals [from, to).
  std::vector<std::pair<double, double>> parts(double from, double to) const {
    std::vector<std::pair<double, double>> all;
    if (from < view.gapBegin)
      all.emplace_back(begins(from), begins(to));
    if (isCut && to > view.gapEnd)
      all.emplace_back(ends(from), ends(to));
    return all;
  }
  double at(double seconds) const { return isCut && seconds >= view.gapEnd ? ends(seconds) : begins(seconds); }
  bool cut() const { return isCut; }

private:
  const TimelineView &view;
  bool isCut;
  double perSecond;
};

std::string rectangle(std::string_view pattern, double from, double to, double y, double height) {
  return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", pattern, number(from),
                     number(y), number(std::max(0.1, to - from)), number(height));
}

/// Returns a time axis at `height` pixels, and the mark of the gap.
std::string ruler(const TimelineView &view, const Scale &scale, double height) {
  std::string text =
      fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>", number(kLeft), number(height), number(kLeft + kWidth));
  auto tick = [&](double seconds, double x, const char *anchor) {
    text +=
        fmt::format("<path class=\"axis\" d=\"M{0} {1}v4\"/><text class=\"soft {2}\" x=\"{0}\" y=\"{3}\">{4}</text>\n",
                    number(x), number(height), anchor, number(height + 16), seconds > 0 ? secondsText(seconds) : "0");
  };
  constexpr int kTicks = 4;
  double first = scale.cut() ? view.gapBegin : view.endSeconds;
  for (int i = 0; i <= kTicks; ++i) {
    double seconds = first * i / kTicks;
    if (i < kTicks || !scale.cut())
      tick(seconds, scale.begins(seconds), i == 0 ? "" : i == kTicks ? "end" : "middle");
  }
  if (!scale.cut())
    return text;
  double from = scale.begins(view.gapBegin), to = scale.ends(view.gapEnd);
  text += fmt::format("<rect fill=\"#fff\" x=\"{0}\" y=\"0\" width=\"{1}\" height=\"{2}\"/><path class=\"axis\" "
                      "stroke-dasharray=\"2 3\" d=\"M{0} 0V{2}M{3} 0V{2}\"/>\n",
                      number(from), number(to - from), number(height + 6), number(to));
  double middle = (view.gapEnd + view.endSeconds) / 2;
  tick(middle, scale.ends(middle), "middle");
  tick(view.endSeconds, scale.ends(view.endSeconds), "end");
  return text;
}

std::string svg(double height, std::string_view label, const std::string &body) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
                     number(kLeft + kWidth + 16), number(height), escaped(label), body);
}

std::string rowName(int64_t stage, double y) {
  return fmt::format("<text class=\"end\" x=\"{}\" y=\"{}\">stage {}</text>\n", number(kLeft - 8), number(y), stage);
}

std::string_view patternOf(const TraceEvent &event) {
  if (!event.task)
    return "optimizer";
  return event.task->kind == TaskKind::Forward          ? "forward"
         : event.task->kind == TaskKind::WeightGradient ? "weights"
                                                        : "backward";
}

/// Draws a task of the compute stream. Recomputation is drawn at the beginning and waiting at the end, because the
/// simulator gives only their seconds, not their places within the task.
std::string taskText(const TraceEvent &event, const Scale &scale, double y, double height) {
  std::string said = fmt::format("{}: {}", event.name, secondsText(event.seconds));
  if (event.recompute > 0)
    said += fmt::format(", {} of recomputation", secondsText(event.recompute));
  if (event.waiting > 0)
    said += fmt::format(", {} waiting for collectives", secondsText(event.waiting));
  std::string text = fmt::format("<g><title>{}</title>", escaped(said));
  for (auto [from, to] : scale.parts(event.start, event.start + event.seconds)) {
    std::string_view pattern = patternOf(event);
    text += rectangle(pattern, from, to, y, height);
    double perSecond = event.seconds > 0 ? (to - from) / event.seconds : 0;
    if (double width = event.recompute * perSecond; width >= 0.5)
      text += rectangle("recompute", from, from + width, y, height);
    if (double width = event.waiting * perSecond; width >= 0.5)
      text += rectangle("waiting", to - width, to, y, height);
    std::string label =
        event.task ? event.name.substr(1) : ""; // without the letter of the pass, which the colour shows
    if (!label.empty() && to - from > kLetter * static_cast<double>(label.size()) + 2)
      text += fmt::format("<text class=\"middle on-{}\" x=\"{}\" y=\"{}\">{}</text>", pattern, number((from + to) / 2),
                          number(y + 14), escaped(label));
    text += fmt::format("<path stroke=\"#fff\" stroke-width=\".6\" d=\"M{} {}v{}\"/>", number(to), number(y),
                        number(height));
  }
  return text + "</g>\n";
}

} // namespace

std::string timelineHtml(const TimelineView &view, const Simulation &simulation) {
  constexpr double kCompute = 20, kCommunication = 6, kRow = 34;
  Scale scale(view);
  std::string body, sends;
  for (size_t i = 0; i < view.stages.size(); ++i) {
    double y = kRow * static_cast<double>(i);
    body += rowName(view.stages[i], y + 14);
    body += rectangle("bubble", kLeft, kLeft + kWidth, y, kCompute);
    for (const TraceEvent &event : view.events) {
      if (event.stage != view.stages[i])
        continue;
      if (!event.communication) {
        body += taskText(event, scale, y, kCompute);
        continue;
      }
      std::string parts;
      for (auto [from, to] : scale.parts(event.start, event.start + event.seconds))
        parts +=
            fmt::format("M{} {}h{}v{}h-{}z", number(from), number(y + kCompute + 1), number(std::max(0.3, to - from)),
                        number(kCommunication), number(std::max(0.3, to - from)));
      if (event.name.starts_with("send "))
        sends += parts; // drawn as one path: there may be thousands
      else
        body += fmt::format("<path class=\"collectives\" d=\"{}\"><title>{}: {}</title></path>\n", parts,
                            escaped(event.name), secondsText(event.seconds));
    }
    if (!sends.empty())
      body += fmt::format("<path class=\"collectives\" d=\"{}\"><title>sends of stage {}</title></path>\n", sends,
                          view.stages[i]);
    sends.clear();
  }
  double height = kRow * static_cast<double>(view.stages.size());
  body += ruler(view, scale, height);
  return svg(height + 22,
             fmt::format("timeline of {} stages over {}", simulation.memory.size(), secondsText(view.endSeconds)),
             body);
}

std::string memoryOverTimeHtml(const TimelineView &view, const Simulation &simulation) {
  const double kHigh = view.stages.size() <= kFewStages ? 100 : 44, kRow = kHigh + 10;
  Scale scale(view);
  double most = 0;
  for (const StageMemory &memory : simulation.memory)
    most = std::max({most, memory.limitBytes, memory.deviceBytes});
  auto high = [&](double bytes) { return most > 0 ? kHigh * bytes / most : 0; };
  std::string body;
  for (size_t i = 0; i < view.stages.size(); ++i) {
    const StageMemory &memory = simulation.memory[view.stages[i]];
    double bottom = kRow * static_cast<double>(i) + kHigh + 8;
    body += rowName(view.stages[i], bottom - kHigh / 2);
    body += fmt::format("<text class=\"end soft\" x=\"{}\" y=\"{}\">{:.1f} GiB</text>\n", number(kLeft - 8),
                        number(bottom - kHigh / 2 + 13), memory.deviceBytes / kGiB);
    std::string line = fmt::format("M{} {}", number(kLeft), number(bottom));
    double held = 0; // memory after the preceding task
    for (const TraceEvent &event : view.events) {
      if (event.stage != view.stages[i] || !event.task)
        continue;
      for (auto [from, to] : scale.parts(event.start, event.start + event.seconds))
        line +=
            fmt::format("L{0} {1}V{2}H{3}V{4}", number(from), number(bottom - high(held)),
                        number(bottom - high(event.bytesDuring)), number(to), number(bottom - high(event.bytesAfter)));
      held = event.bytesAfter;
    }
    line += fmt::format("H{}V{}z", number(kLeft + kWidth), number(bottom));
    double fixed = memory.weights + memory.gradients + memory.states;
    body += fmt::format("<path class=\"held\" d=\"{}\"><title>stage {}: at most {:.2f} GiB, in the {}</title></path>\n",
                        line, view.stages[i], memory.deviceBytes / kGiB, escaped(memory.moment));
    body += rectangle("fixed", kLeft, kLeft + kWidth, bottom - high(fixed), high(fixed)) + "\n";
    body += fmt::format("<path class=\"limit\" d=\"M{} {}H{}\"/>", number(kLeft),
                        number(bottom - high(memory.limitBytes)), number(kLeft + kWidth));
  }
  double height = kRow * static_cast<double>(view.stages.size()) + 4;
  body += ruler(view, scale, height);
  return svg(height + 22, "memory of each stage over the step, with the limit of its device", body);
}

} // namespace kerf
