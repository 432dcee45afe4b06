// SPDX-License-Identifier: Apache-2.0
// Converts the settings of a job to the options of the libraries.
#include "kerf/Compiler/JobSettings.h"
#include "kerf/CostModel/Trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace kerf {

namespace {

/// Reads a finite number that makes up the whole text.
std::optional<double> numberFrom(std::string_view text) {
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && std::isfinite(value) ? std::optional(value)
                                                                                         : std::nullopt;
}

/// Returns whether f32 can represent `scale` and its inverse as normal numbers.
bool isScale(double scale) {
  return scale >= std::numeric_limits<float>::min() && scale <= 1 / double(std::numeric_limits<float>::min());
}

} // namespace

std::optional<double> expertCapacityFrom(const std::string &text) {
  if (text == "exact")
    return kExactExperts;
  auto factor = numberFrom(text);
  return factor && *factor > 0 ? factor : std::nullopt;
}

Result<OptimizerGroup> parameterGroupFrom(const std::string &text) {
  auto wrong = [&](const std::string &why) {
    return Error{fmt::format("'{}': {}; such as \"*.bias:decay=0\" or \"lm_head.*:lr=1e-4\"", text, why)};
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    return wrong("a group has the form GLOB:lr=X,decay=Y,optimizer=NAME");
  OptimizerGroup group{text.substr(0, colon), {}, {}, {}};
  for (size_t at = colon + 1; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = std::min(part.find('='), part.size());
    const std::string key = part.substr(0, equals), number = part.substr(std::min(equals + 1, part.size()));
    at = end + 1;
    if (key == "optimizer") {
      if (!group.optimizer.empty())
        return wrong("optimizer is given twice");
      if (!findOptimizer(number))
        return wrong(fmt::format("there is no optimizer '{}': there are {}", number, optimizerNames()));
      group.optimizer = number;
      continue;
    }
    if (key != "lr" && key != "decay")
      return wrong(fmt::format("there is no '{}': a group has lr, decay and optimizer", key));
    auto value = numberFrom(number);
    if (!value || *value < 0)
      return wrong(fmt::format("{} is '{}', not a number of 0 or more", key, number));
    std::optional<double> &own = key == "lr" ? group.learningRate : group.weightDecay;
    if (own)
      return wrong(fmt::format("{} is given twice", key));
    own = value;
  }
  return group;
}

StepOptions ModelSettings::toStepOptions() const {
  StepOptions options;
  options.import.floatType = dtype == "f64" ? DType::F64 : DType::F32;
  options.import.loss = loss;
  options.import.metrics = metrics;
  options.import.trainable = trainable;
  options.import.frozen = frozen;
  if (!weights.empty())
    options.import.weights = weights;
  options.import.globalBatch = globalBatch;
  options.import.sequence = sequence;
  options.import.expertCapacity = expertCapacity;
  OptimizerOptions &o = options.optimizer;
  o.optimizer = optimizer;
  o.noDecayGlobs = noDecay;
  o.groups = groups;
  o.compression = compression;
  // The job of a plan may have settings of another optimizer, which are left out here. A front end refuses settings
  // that a user gives for another optimizer.
  for (const OptimizerRecord *record : optimizersOf(o))
    for (const OptimizerSetting &setting : record->settings)
      if (auto given = settings.find(setting.name); given != settings.end())
        o.settings.insert(*given);
  o.accumulate = accumulate;
  o.clipNorm = clipNorm;
  options.recognizeComposites = !noRecognition;
  options.acceptFolded = acceptFolded;
  return options;
}

std::string PrecisionSettings::firstGiven() const {
  return !reduceDtype.empty() ? "reduce-dtype"
         : !lossScale.empty() ? "loss-scale"
         : initialLossScale   ? "initial-loss-scale"
         : lossScaleWindow    ? "loss-scale-window"
                              : "";
}

Result<std::optional<PrecisionOptions>> PrecisionSettings::toOptions(const std::string &dtype) const {
  if (dtype != "bf16" && dtype != "f16" && dtype != "f8") {
    if (std::string setting = firstGiven(); !setting.empty())
      return Error{fmt::format("<{0}> is for <dtype> bf16, f16 and f8; <dtype> is {1}, so leave <{0}> out or change "
                               "<dtype>",
                               setting, dtype)};
    return std::optional<PrecisionOptions>();
  }
  PrecisionOptions options;
  options.compute = dtype == "f16" ? DType::F16 : DType::BF16;
  options.quantizeProducts = dtype == "f8";
  options.reduceInCompute = reduceDtype == "compute";
  bool dynamic = lossScale == "dynamic" || (lossScale.empty() && dtype == "f16");
  options.scaling = dynamic ? LossScaling::Dynamic : lossScale.empty() ? LossScaling::None : LossScaling::Static;
  if (!dynamic && (initialLossScale || lossScaleWindow))
    return Error{fmt::format(
        "<{}> is for a dynamic loss scale; {}", initialLossScale ? "initial-loss-scale" : "loss-scale-window",
        lossScale.empty() ? "give <loss-scale=dynamic> too"
                          : fmt::format("<loss-scale> is {}, so give <loss-scale=dynamic> instead", lossScale))};
  if (options.scaling == LossScaling::Static) {
    auto scale = numberFrom(lossScale);
    if (!scale || !isScale(*scale))
      return Error{fmt::format(
          "<loss-scale>: '{}' is neither 'dynamic' nor a number above 0 that f32 holds; give one of the two",
          lossScale)};
    options.lossScale = *scale;
  }
  options.lossScale = initialLossScale.value_or(options.lossScale);
  options.lossScaleWindow = lossScaleWindow.value_or(options.lossScaleWindow);
  if (!isScale(options.lossScale))
    return Error{
        fmt::format("<initial-loss-scale> is {}; it must be a number above 0 that f32 holds", options.lossScale)};
  if (options.lossScaleWindow < 1)
    return Error{fmt::format("<loss-scale-window> is {}; it must be 1 or more", options.lossScaleWindow)};
  return std::optional(options);
}

Result<int64_t> SearchSettings::wantedRanks() const {
  if (mode == "stand-alone" && ranks > 1)
    return Error{fmt::format("<mode=stand-alone> uses one rank, but <ranks> is {}; leave one of the two out", ranks)};
  return mode == "stand-alone" ? 1 : ranks;
}

Result<std::optional<CompressionRequest>> SearchSettings::compression() const {
  bool planned = compress == "plan";
  std::string ineffective = !compressCodecs.empty() && !planned                             ? "compress-codecs"
                            : compressRatio > 0 && !planned                                 ? "compress-ratio"
                            : compressFirstStep && (compress.empty() || compress == "none") ? "compress-first-step"
                                                                                            : "";
  if (!ineffective.empty())
    return Error{fmt::format("<{}> has no effect, because <compress> is {}; leave it out, or give <compress=plan>",
                             ineffective, compress.empty() ? "none" : compress)};
  if (compress.empty() || compress == "none")
    return std::optional<CompressionRequest>();
  CompressionRequest request;
  if (!planned)
    request.always = compression::findCodec(compress);
  for (const std::string &name : compressCodecs)
    request.limits.codecs.push_back(compression::findCodec(name));
  request.limits.largestRatio = compressRatio;
  request.limits.firstStep = compressFirstStep;
  return std::optional(request);
}

Result<PlanRequest> makePlanRequest(const ModelSource &model, const JobSettings &settings, const Cluster &cluster,
                                    Plan constraints, const std::string &constraintsFile) {
  const SearchSettings &search = settings.search;
  PlanOptions options;
  options.constraints = std::move(constraints);
  if (!constraintsFile.empty())
    options.constraintsFile = constraintsFile;
  const bool dataOnly = search.mode == "data" || search.mode == "stand-alone";
  if (dataOnly) {
    auto [pinned, isNew] = options.constraints.meshSizes.try_emplace("model", 1);
    if (pinned->second != 1)
      return Error{fmt::format("<mode={}> needs mesh.model = 1, but {} sets mesh.model to {}; change one of the two",
                               search.mode, options.constraintsFile, pinned->second)};
  }
  if (search.memory)
    options.memoryLimitBytes = search.memory;
  if (search.budgetSeconds > 0) // the solver's default budget takes about half a second, so one second is two of them
    options.workBudget =
        static_cast<int64_t>(std::min(1e18, 2 * search.budgetSeconds * static_cast<double>(SolveOptions().workBudget)));
  options.alternatives = static_cast<int>(search.top);
  options.allRanks = search.allRanks || search.mode == "stand-alone";
  options.margin = search.margin;
  auto mixed = settings.precision.toOptions(settings.model.dtype);
  if (!mixed)
    return mixed.error();
  PlanRequest request{model, settings.model.toStepOptions(), settings.model.dtype, cluster, std::move(options)};
  request.step.precision = *mixed;
  if (!search.search.empty())
    request.search = search.search == "whole" ? SearchKind::Whole : SearchKind::Placement;
  if (!search.trainer.empty())
    request.trainer = findTrainer(search.trainer);
  auto compression = search.compression();
  if (!compression)
    return compression.error();
  request.compression = std::move(*compression);
  request.dataOnly = dataOnly;
  request.seconds = search.budgetSeconds;
  return request;
}

} // namespace kerf
