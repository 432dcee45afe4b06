// SPDX-License-Identifier: Apache-2.0
// Builds a training step from an imported model.
#include "kerf/Compiler/Compiler.h"

#include "Diagnostics.h"
#include "HandWritten.h"
#include "kerf/Transforms/Pipelines.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace kerf {

std::unique_ptr<MLIRContext> createContext() {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<ir::KerfDialect, func::FuncDialect>();
  return context;
}

std::string sha256(std::string_view bytes) {
  llvm::SHA256 hash;
  hash.update(StringRef(bytes.data(), bytes.size()));
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

std::string sha256(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return sha256(text);
}

int64_t batchOf(ModuleOp module) {
  auto main = SymbolTable(module).lookup<func::FuncOp>(ir::KerfDialect::kEntryName);
  for (BlockArgument argument : main.getArguments()) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::KerfDialect::kKindAttr);
    if (kind && kind.getValue() == "input" && ir::tensorType(argument).getRank() > 0)
      return ir::tensorType(argument).getDimSize(0);
  }
  return 1;
}

/// Returns whether the model has gradients and an optimizer of its own: a parameter or state, and not only a buffer, is
/// replaced by a result.
static bool isWholeStep(ModuleOp module) {
  auto main = SymbolTable(module).lookup<func::FuncOp>(ir::KerfDialect::kEntryName);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto kind = main.getArgAttrOfType<StringAttr>(i, ir::KerfDialect::kKindAttr);
        kind && kind.getValue() != "buffer" && main.getArgAttr(i, ir::KerfDialect::kUpdatedByAttr))
      return true;
  return false;
}

/// Returns whether any optimizer option differs from its default.
static bool isChosen(const OptimizerOptions &options) {
  OptimizerOptions defaults;
  return options.optimizer != defaults.optimizer || options.settings != defaults.settings ||
         options.clipNorm != defaults.clipNorm || !options.noDecayGlobs.empty() || !options.groups.empty();
}

namespace {

/// Returns the types of mixed precision for reports.
std::vector<Report::Type> typesOf(const PrecisionOptions &precision) {
  std::string half(toString(precision.compute));
  std::vector<Report::Type> types = {
      {"parameters, optimizer states, updates", "f32"},
      {"products, attention, elementwise ops, activations", half},
      {"inside softmax and norms; sums, cross entropy, the loss", "f32"},
      {"gradients: summed over ranks and microbatches", precision.reduceInCompute ? half : "f32"}};
  if (precision.quantizeProducts)
    types.insert(types.begin() + 1, {"factors of the products of linear layers", "f8e4m3fn; gradients f8e5m2"});
  if (precision.scaling == LossScaling::Dynamic)
    types.push_back(
        {"loss scale", fmt::format("{:g} at first; halved when a gradient overflows, doubled after {} steps "
                                   "without",
                                   precision.lossScale, precision.lossScaleWindow)});
  if (precision.scaling == LossScaling::Static)
    types.push_back({"loss scale", fmt::format("{:g}", precision.lossScale)});
  return types;
}

Tensor scalarOf(float value) {
  auto [tensor, bytes] = allocateTensor(DType::F32, {});
  std::memcpy(bytes, &value, sizeof value);
  return tensor;
}

/// Fails when an option does not apply to a whole train step, which has gradients and an optimizer of its own.
Status checkWholeStep(const std::string &path, const StepOptions &options) {
  if (options.precision)
    return Error{fmt::format("'{}' is a whole train step, which runs in the types in which it is written; give <dtype> "
                             "f32 or f64",
                             path)};
  if (!options.cuts.empty())
    return Error{fmt::format("'{}' is a whole train step with a backward pass of its own, so its stages can be cut "
                             "between layers only; give \"layers\" instead of \"until\"",
                             path)};
  if (!options.optimizer.compression.rules.empty())
    return Error{
        fmt::format("'{}' is a whole train step, whose gradients are not known as such; leave <compress> out", path)};
  if (options.optimizer.accumulate > 1)
    return Error{
        fmt::format("'{}' is a whole train step, which updates after each batch; leave <accumulate> out", path)};
  if (options.optimizer.gradientNorms)
    return Error{
        fmt::format("'{}' is a whole train step, whose gradients have no names; leave <gradient-norms> out", path)};
  return ok();
}

/// Removes the list of folded parameters from the module. Fails with their names when there are any, unless `accepted`.
Status takeFolded(ModuleOp module, const std::string &path, bool accepted) {
  auto folded = module->getAttrOfType<ArrayAttr>(kFoldedAttr);
  module->removeAttr(kFoldedAttr);
  if (!folded || folded.empty() || accepted)
    return ok();
  constexpr size_t kNamed = 12;
  std::vector<std::string> names;
  for (Attribute name : folded)
    if (auto text = dyn_cast<StringAttr>(name); text && names.size() < kNamed)
      names.push_back(text.str());
  return Error{
      fmt::format("'{}': the exporter folded {} parameter{} into constants or merged them with others, so that "
                  "training this graph would train another model: {}{}. Export it with torch.onnx.export(..., "
                  "dynamo=True, optimize=False), or with dynamo=False, do_constant_folding=False "
                  "(docs/exporting.md); <accept-folded> trains the remaining parameters",
                  path, folded.size(), folded.size() == 1 ? "" : "s", fmt::join(names, ", "),
                  folded.size() > names.size() ? fmt::format(" and {} more", folded.size() - names.size()) : "")};
}

} // namespace

TrainingStep bareTrainingStep(ImportedModel model) {
  TrainingStep step;
  step.module = std::move(model.module);
  step.weights = std::move(model.weights);
  step.warnings = std::move(model.warnings);
  step.missingFiles = std::move(model.missingFiles);
  step.module->getOperation()->removeAttr("kerf.weights"); // the place of the weights is not part of the model's hash
  step.modelHash = sha256(*step.module);
  return step;
}

Status setPlanDependentOptions(StepOptions &options, const Plan &plan, const std::string &where) {
  auto cuts = stageCuts(plan, where);
  if (!cuts)
    return cuts.error();
  options.cuts = std::move(*cuts);
  options.patterns.clear();
  options.patternsOfAllOps = isOpByOp(plan, plan.globalBatch);
  for (const OpPlan &op : plan.ops)
    options.patterns.push_back(op.pattern);
  for (const OpRecompute &op : plan.recomputeOps)
    options.patterns.push_back(op.pattern);
  if (!plan.compression.empty()) // the plan has decided for each gradient
    options.optimizer.compression.rules.clear();
  for (const CompressionPin &pin : plan.compression) {
    const compression::SyncChoice &its = pin.choice;
    CompressionRule &rule = options.optimizer.compression.rules.emplace_back();
    rule.glob = pin.pattern;
    rule.codec = its.codec ? its.codec->name : "none";
    if (its.codec)
      rule = {pin.pattern,       rule.codec,   std::string(toString(its.scheme)), its.pieces, its.hierarchy,
              its.errorFeedback, its.firstStep};
  }
  return ok();
}

Result<TrainingStep> importTrainingStep(MLIRContext &context, const ModelSource &source, const StepOptions &options) {
  auto model = importModel(context, source, options.import);
  if (!model)
    return model.error();
  return buildTrainingStep(context, std::move(*model), source.name, options);
}

Result<TrainingStep> buildTrainingStep(MLIRContext &context, ImportedModel model, const std::string &path,
                                       const StepOptions &options) {
  if (Status status = takeFolded(*model.module, path, options.acceptFolded); !status)
    return status.error();
  TrainingStep step = bareTrainingStep(std::move(model));
  OptimizerOptions optimizer = options.optimizer;
  if (options.precision) {
    step.types = typesOf(*options.precision);
    optimizer.lossScaleWindow = options.precision->lossScaleWindow;
    if (options.precision->reduceInCompute)
      optimizer.reduceType = toString(options.precision->compute);
    if (options.precision->scaling != LossScaling::None)
      step.weights[ir::KerfDialect::kLossScaleName.str()] = scalarOf(static_cast<float>(options.precision->lossScale));
  }

  auto pins = extractArgumentPins(*step.module);
  if (!pins)
    return Error{fmt::format("'{}': {}", path, pins.error().message)};
  bool whole = isWholeStep(*step.module);
  if (Status status = whole ? checkWholeStep(path, options) : ok(); !status)
    return status.error();
  if (whole && isChosen(options.optimizer))
    step.warnings.push_back(
        "the program is a whole train step with an optimizer of its own; <optimizer> and its options are not used");
  DiagnosticCollector collected(&context);
  auto passes = PassManager::on<ModuleOp>(&context);
  addStepPasses(passes, {whole, options.recognizeComposites, options.patterns, options.patternsOfAllOps, options.cuts,
                         options.precision, optimizer});
  step.pipeline = pipelineText(passes);
  if (Status status = collected.run(passes, *step.module); !status)
    return status.error();
  step.warnings.insert(step.warnings.end(), collected.warnings.begin(), collected.warnings.end());
  if (Status status = extractOpPins(*step.module, *pins); !status)
    return Error{fmt::format("'{}': {}", path, status.error().message)};
  step.ops = std::move(pins->ops);
  step.arguments = std::move(pins->arguments);
  step.cuts = options.cuts;
  return step;
}

} // namespace kerf
