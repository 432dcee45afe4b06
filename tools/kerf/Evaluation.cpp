// SPDX-License-Identifier: Apache-2.0
#include "Evaluation.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf::tool {

namespace {
bool hasCrossEntropy(const package::Program &program) {
  return std::any_of(program.functions.begin(), program.functions.end(), [](const package::Function &function) {
    return std::any_of(function.body.begin(), function.body.end(), [](const package::Instruction &instruction) {
      return instruction.op.find("cross_entropy") != std::string::npos;
    });
  });
}

/// Returns the means of an evaluation by name: "eval_loss", "eval_perplexity" after it, then the metrics.
std::vector<std::pair<std::string, double>> named(const package::Program &program,
                                                  const runtime::Evaluation &evaluation) {
  std::vector<std::pair<std::string, double>> all;
  for (const auto &[name, mean] : evaluation.means) {
    all.emplace_back("eval_" + name, mean);
    if (name == "loss" && hasCrossEntropy(program))
      all.emplace_back("eval_perplexity", std::exp(mean));
  }
  return all;
}
} // namespace

Result<std::optional<runtime::DataSet>> openEvaluation(const RunFlags &flags) {
  if (flags.evalData.empty() && (flags.evalEvery || flags.evalSteps))
    return Error{fmt::format("{} has no effect without evaluation data; give --eval-data D too",
                             flags.evalEvery ? "--eval-every" : "--eval-steps")};
  if (flags.evalData.empty())
    return std::optional<runtime::DataSet>();
  auto data = runtime::openData(flags.evalData);
  if (!data)
    return data.error();
  return std::optional<runtime::DataSet>(std::move(*data));
}

runtime::EvaluationOptions evaluationOptions(const RunFlags &flags, const std::optional<runtime::DataSet> &data,
                                             bool samples, int64_t steps) {
  return {data ? &*data : nullptr, samples, flags.evalEvery.value_or(std::max<int64_t>(1, steps)), flags.evalSteps};
}

nlohmann::ordered_json evaluationJson(const package::Program &program, const runtime::Evaluation &evaluation) {
  nlohmann::ordered_json json = {{"step", evaluation.step}};
  for (const auto &[name, mean] : named(program, evaluation))
    json[name] = mean;
  json["seconds"] = evaluation.seconds;
  return json;
}

std::string evaluationText(const package::Program &program, const runtime::Evaluation &evaluation) {
  std::string text = fmt::format("step {:>5}", evaluation.step);
  for (const auto &[name, mean] : named(program, evaluation))
    text += fmt::format("  {} {:.6f}", name, mean);
  return text + fmt::format("  ({} batches, {:.1f} ms)\n", evaluation.batches, evaluation.seconds * 1e3);
}

} // namespace kerf::tool
