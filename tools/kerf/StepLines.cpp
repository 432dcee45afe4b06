// SPDX-License-Identifier: Apache-2.0
#include "StepLines.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::tool {

/// Returns the loss, with a NaN made positive, because the sign of a NaN has no meaning.
static double withoutSign(double loss) { return std::isnan(loss) ? std::abs(loss) : loss; }

std::string logLine(const runtime::StepResult &step) {
  nlohmann::ordered_json line = {{"step", step.step}, {"loss", step.loss}, {"seconds", step.seconds}};
  if (!std::isfinite(step.loss)) // JSON then has null for "loss"
    line["nonfinite"] = fmt::format("{}", withoutSign(step.loss));
  if (step.skipped)
    line["skipped"] = true;
  return line.dump();
}

std::string progressLine(const runtime::StepResult &step) {
  return fmt::format("step {:>5}  loss {:.6f}  {:.1f} ms{}\n", step.step, withoutSign(step.loss), step.seconds * 1e3,
                     step.skipped ? "  skipped" : "");
}

std::string stoppedText(const runtime::RunReport &report, const RunFlags &flags) {
  int64_t last = report.steps.back().step;
  std::vector<std::string> written;
  if (!flags.checkpoint.empty())
    written.push_back(fmt::format(
        "checkpoint '{}'", (std::filesystem::path(flags.checkpoint) / runtime::checkpointName(last + 1)).string()));
  if (!flags.save.empty())
    written.push_back(fmt::format("weights '{}'", flags.save));
  if (!flags.saveHf.empty())
    written.push_back(fmt::format("Hugging Face folder '{}'", flags.saveHf));
  if (!flags.log.empty())
    written.push_back(fmt::format("log '{}'", flags.log));
  if (!flags.trace.empty())
    written.push_back(fmt::format("trace '{}'", flags.trace));
  return fmt::format(
      "stopped by {} after step {}: {}{}\n", report.stoppedBy == SIGTERM ? "SIGTERM" : "SIGINT", last,
      written.empty() ? "wrote no file, as none was asked for (--checkpoint, --save, --save-hf, --log, --trace)"
                      : fmt::format("wrote {}", fmt::join(written, ", ")),
      flags.checkpoint.empty() ? "" : fmt::format("; --resume {} continues the training", flags.checkpoint));
}

int exitStatus(const runtime::RunReport &report) {
  constexpr int kEndedBySignal = 128;
  return report.stoppedBy ? kEndedBySignal + report.stoppedBy : 0;
}

runtime::OnNan onNanFrom(const std::string &text) {
  return text == "skip" ? runtime::OnNan::Skip : text == "continue" ? runtime::OnNan::Continue : runtime::OnNan::Stop;
}

} // namespace kerf::tool
