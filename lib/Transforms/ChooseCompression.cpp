// SPDX-License-Identifier: Apache-2.0
#include "ChooseCompression.h"

#include <algorithm>
#include <fmt/format.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Returns whether the gradient is that of a table of which a step reads some rows.
bool isTable(Value gradient) {
  Operation *op = gradient.getDefiningOp();
  while (op && op->hasTrait<SameValue>() && op->getNumOperands() == 1)
    op = op->getOperand(0).getDefiningOp();
  return op && (op->hasTrait<UsesTable>() || (isa<AddOp>(op) && llvm::any_of(op->getOperands(), isTable)));
}

/// The rules on a codec, in the order in which they are checked. Each function returns what is wrong, or "".
using CodecRule = std::string (*)(const Codec &codec, const CompressionRule &rule, const OptimizerOptions &options,
                                  const CompressedParameter &parameter, bool feedback);

std::string checkScheme(const Codec &codec, const CompressionRule &rule, const OptimizerOptions &,
                        const CompressedParameter &, bool) {
  if (!rule.scheme.empty() && rule.scheme != "all-gather" && codec.gathers)
    return fmt::format("its payload cannot hold a sum of payloads, as scheme {} needs; use scheme all-gather, or leave "
                       "the scheme out",
                       rule.scheme);
  if (rule.pieces > 1 && codec.rank)
    return fmt::format("it needs the whole matrix, which pieces = {} would cut; leave out pieces", rule.pieces);
  if (rule.hierarchy && codec.rank)
    return "it needs the whole matrix, of which the ranks of a node would have parts each; leave out hierarchy";
  return "";
}

std::string checkTypes(const Codec &, const CompressionRule &, const OptimizerOptions &options,
                       const CompressedParameter &, bool) {
  if (options.reduceType.empty())
    return "";
  return fmt::format("gradients are summed in {} already, because of <reduce-dtype=compute>; leave out one of the two",
                     options.reduceType);
}

std::string checkBias(const Codec &codec, const CompressionRule &, const OptimizerOptions &options,
                      const CompressedParameter &, bool feedback) {
  if (!codec.biased || feedback || options.compression.allowBiased)
    return "";
  if (codec.noFeedback)
    return "it is biased, and error feedback cannot correct it, because what is decoded does not have the gradient's "
           "size; use onebit, or give <allow-biased> to train without correction";
  return "it is biased, so training needs error feedback, which error_feedback false turns off; leave that out, or "
         "give <allow-biased> to train without correction";
}

std::string checkSquares(const Codec &codec, const CompressionRule &, const OptimizerOptions &,
                         const CompressedParameter &parameter, bool feedback) {
  if (!feedback || !parameter.optimizer->record->dividesBySquares)
    return "";
  return fmt::format(
      "optimizer {} divides by the squares of gradients, which error feedback on gradients distorts until "
      "training does not converge; use an unbiased codec{}, <optimizer=onebit-adam>, or <optimizer=sgd>",
      parameter.optimizer->record->name, codec.biased ? " such as int8 or int4" : " without error_feedback");
}

std::string checkMean(const Codec &, const CompressionRule &rule, const OptimizerOptions &options,
                      const CompressedParameter &parameter, bool) {
  const OptimizerRecord &record = *parameter.optimizer->record;
  if (!record.codedMean)
    return "";
  if (options.accumulate > 1)
    return fmt::format("optimizer {} sums a mean of gradients, but <accumulate> is {}, so that gradients are encoded "
                       "before they are complete; leave out <accumulate> or <compress>",
                       record.name, options.accumulate);
  const SumBatches batches = record.codedMean->batches(parameter.optimizer->settings, rule.firstStep);
  if (const BatchRange &first = batches.plain.ranges.front(); rule.firstStep > first.end)
    return fmt::format("first_step is {}, but optimizer {} sums only the first {} steps plainly; leave out first_step, "
                       "or use <optimizer=onebit-adam>",
                       rule.firstStep, record.name, first.end);
  if (record.codedMean->longest && parameter.hasLossScale)
    return fmt::format("optimizer {} tells by the number of a step how ranks sum, and in a step without a sum no rank "
                       "knows whether gradients of others overflow, but <loss-scale> skips steps; train in bf16 or f32 "
                       "without <loss-scale>, or use <optimizer=onebit-adam>",
                       record.name);
  if (!batches.hasLocalSteps())
    return "";
  const std::string wayOut =
      fmt::format("or give <{}=1>, with which ranks sum in each step", record.codedMean->longest);
  if (options.clipNorm > 0)
    return fmt::format("optimizer {} has steps without a sum, in which no rank knows the norm of all gradients, but "
                       "<clip-norm> is {}; leave out <clip-norm>, {}",
                       record.name, options.clipNorm, wayOut);
  if (options.gradientNorms)
    return fmt::format("optimizer {} has steps without a sum, in which no rank knows the norms of gradients; leave out "
                       "<gradient-norms>, {}",
                       record.name, wayOut);
  return "";
}

std::string checkMomentum(const Codec &codec, const CompressionRule &, const OptimizerOptions &options,
                          const CompressedParameter &parameter, bool) {
  const ParameterOptimizer &optimizer = *parameter.optimizer;
  if (optimizer.record->codedMean)
    return "";
  if (!codec.momentumFirst || options.compression.allowBiased)
    return "";
  const char *setting = optimizer.record->earlyMomentum;
  if (!setting)
    return fmt::format("it needs the momentum before gradients are encoded, and the momentum of optimizer {} cannot be "
                       "moved there; use <optimizer=sgd> or <optimizer=onebit-adam>, or a codec such as int8 or int4",
                       optimizer.record->name);
  auto nesterov = optimizer.settings.find("nesterov");
  if (nesterov != optimizer.settings.end() && nesterov->second != 0)
    return "it needs the momentum before gradients are encoded, where Nesterov's form does not exist; leave out "
           "<nesterov>, or use a codec such as int8 or int4";
  if (options.accumulate > 1 && optimizer.settings.find(setting)->second != 0)
    return fmt::format("it needs the momentum before gradients are encoded, but <accumulate> is {}, so that gradients "
                       "are encoded before they are complete; use a codec such as int8 or int4",
                       options.accumulate);
  return "";
}

constexpr CodecRule kRules[] = {checkScheme, checkTypes, checkBias, checkSquares, checkMean, checkMomentum};

} // namespace

LogicalResult chooseGatherCodec(ModuleOp module, const CompressionOptions &options) {
  if (options.gathers.empty() || options.gathers == "none")
    return success();
  auto codec = findCodec(module, options.gathers);
  if (!codec)
    return module.emitError() << "<compress-gathers>: " << codec.error().message;
  if (codec->biased || codec->rank || codec->sharedKey)
    return module.emitError() << "<compress-gathers>: codec " << options.gathers
                              << " does not send each element of a parameter close to its value; use int8, bf16 or "
                                 "another codec without bias";
  module->setAttr(kGatherCodecAttr, StringAttr::get(module.getContext(), options.gathers));
  return success();
}

FailureOr<std::optional<CompressedSync>> chooseCompression(ModuleOp module, const OptimizerOptions &options,
                                                           const CompressedParameter &parameter) {
  auto type = tensorType(parameter.gradient);
  const CompressionRule *rule = compressionOf(options.compression, parameter.name, parameter.rank,
                                              type.getNumElements(), isTable(parameter.gradient));
  if (!rule)
    return std::optional<CompressedSync>();
  auto codec = findCodec(module, rule->codec);
  if (!codec)
    return module.emitError() << "the gradient of '" << parameter.name << "': " << codec.error().message;
  const bool feedback = rule->errorFeedback.value_or(
                            codec->biased && !codec->noFeedback &&
                            !(options.compression.allowBiased && parameter.optimizer->record->dividesBySquares)) &&
                        !codec->noFeedback;
  for (CodecRule check : kRules)
    if (std::string wrong = check(*codec, *rule, options, parameter, feedback); !wrong.empty())
      return module.emitError() << "codec " << rule->codec << " for the gradient of '" << parameter.name
                                << "': " << wrong;
  if (codec->rank && type.getRank() < 2)
    return module.emitError() << "codec " << rule->codec << " for the gradient of '" << parameter.name
                              << "': it needs a matrix, and the gradient is " << type
                              << "; use another codec for vectors, or none";
  CompressedSync how{parameter.name,
                     rule->codec,
                     rule->scheme,
                     feedback,
                     0,
                     {},
                     rule->hierarchy,
                     rule->pieces,
                     rule->firstStep * options.accumulate};
  if (parameter.optimizer->record->codedMean) {
    how.optimizer = parameter.optimizer->record->name;
    how.settings = parameter.optimizer->settings;
  }
  const OptimizerRecord &record = *parameter.optimizer->record;
  if (!record.earlyMomentum || !codec->momentumFirst)
    return std::optional(how);
  double &momentum = parameter.optimizer->settings[record.earlyMomentum];
  if (feedback && !codec->masksMomentum && momentum != 0) {
    how.momentum = momentum;
    how.momentumState = record.earlyMomentum;
  } else {
    std::swap(how.momentum, momentum);
  }
  return std::optional(how);
}

} // namespace kerf
