// SPDX-License-Identifier: Apache-2.0
#include "Pareto.h"
#include "Html.h"
#include "kerf/Report/Report.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace kerf {

using namespace html;

namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kLeft = 90, kWidth = 1000, kTop = 10, kHeight = 300;

/// Maps values to positions from 0 to 1 with a margin on both sides; logarithmic if the values span more than a factor
/// of 20.
struct Scale {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool logarithmic() const { return low > 0 && high / low > 20; }
  double of(double value) const {
    constexpr double kMargin = 0.05;
    double share = high <= low     ? 0.5
                   : logarithmic() ? std::log(value / low) / std::log(high / low)
                                   : (value - low) / (high - low);
    return kMargin + (1 - 2 * kMargin) * share;
  }
  double at(double share) const {
    return logarithmic() ? low * std::pow(high / low, share) : low + (high - low) * share;
  }
};

} // namespace

std::string paretoHtml(const std::vector<ParetoPlan> &plans, double pricePerHour) {
  constexpr int kTicks = 4;
  Scale seconds, bytes;
  for (const ParetoPlan &plan : plans) {
    seconds.add(plan.plan.simulation.stepSeconds);
    bytes.add(plan.deviceBytes);
  }
  auto x = [&](double value) { return kLeft + kWidth * seconds.of(value); };
  auto y = [&](double value) { return kTop + kHeight * (1 - bytes.of(value)); };
  std::string body = fmt::format("<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/>\n", number(kLeft), number(kTop),
                                 number(kTop + kHeight), number(kLeft + kWidth));
  for (int i = 0; i <= kTicks; ++i) {
    double time = seconds.at(static_cast<double>(i) / kTicks), memory = bytes.at(static_cast<double>(i) / kTicks);
    body += fmt::format("<text class=\"soft middle\" x=\"{}\" y=\"{}\">{}</text><text class=\"soft end\" x=\"{}\" "
                        "y=\"{}\">{:.1f} GiB</text>\n",
                        number(x(time)), number(kTop + kHeight + 16), secondsText(time), number(kLeft - 6),
                        number(y(memory) + 4), memory / kGiB);
    if (seconds.high <= seconds.low || bytes.high <= bytes.low) // the ticks would overlap
      break;
  }
  std::vector<Column> columns = {
      {"Plan"}, {"Ranks", CellKind::Number}, {"Step", CellKind::Number}, {"GiB", CellKind::Number}};
  if (pricePerHour > 0)
    columns.push_back({"Price of a step", CellKind::Number});
  Table table(columns);
  for (const ParetoPlan &plan : plans) {
    double time = plan.plan.simulation.stepSeconds;
    std::string text = planText(plan.plan.plan);
    body += fmt::format("<g><title>{0}: {1}, {2:.2f} GiB</title><circle class=\"backward\" cx=\"{3}\" cy=\"{4}\" "
                        "r=\"4\"/><text x=\"{5}\" y=\"{6}\">{7}</text></g>\n",
                        escaped(text), secondsText(time), plan.deviceBytes / kGiB, number(x(time)),
                        number(y(plan.deviceBytes)), number(x(time) + 7), number(y(plan.deviceBytes) + 4), plan.ranks);
    std::vector<std::string> cells = {text, fmt::format("{}", plan.ranks), secondsText(time),
                                      fmt::format("{:.2f}", plan.deviceBytes / kGiB)};
    if (pricePerHour > 0)
      cells.push_back(fmt::format("{:.4g}", pricePerHour * static_cast<double>(plan.ranks) * time / kSecondsPerHour));
    table.row(cells);
  }
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"step time against memory of {} "
                     "plans\">\n{}</svg>\n",
                     number(kLeft + kWidth + 40), number(kTop + kHeight + 26), plans.size(), body) +
         note("Horizontal: step time. Vertical: memory of the fullest device. The number at a dot is the plan's number "
              "of "
              "ranks. No plan beats a listed plan in all three.") +
         table.text();
}

} // namespace kerf
