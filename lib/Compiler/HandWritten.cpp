// SPDX-License-Identifier: Apache-2.0
// Handles IR written by hand: annotations, which become pins of a plan, and whole device programs.
#include "HandWritten.h"
#include "Diagnostics.h"
#include "EmitProgram.h"
#include "kerf/Frontend/DeviceFile.h"
#include "kerf/Support/Glob.h"
#include "kerf/Transforms/OpKeys.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

static func::FuncOp entryOf(ModuleOp module) {
  return SymbolTable(module).lookup<func::FuncOp>(KerfDialect::kEntryName);
}

/// Returns the key of an operator without the "#N" that tells operators with equal keys apart.
static std::string withoutNumber(const std::string &key) { return key.substr(0, key.find('#')); }

static Result<ArgumentPlan> argumentPin(BlockArgument argument, Attribute attr) {
  std::string name = argumentKey(argument);
  auto sharding = dyn_cast<ShardingAttr>(attr);
  if (!sharding)
    return Error{fmt::format("'{}': the value of kerf.sharding must be a #kerf.sharding attribute", name)};
  if (static_cast<int64_t>(sharding.getDims().size()) != tensorType(argument).getRank())
    return Error{fmt::format("'{}': kerf.sharding has {} dimensions, but must have the {} of the argument", name,
                             sharding.getDims().size(), tensorType(argument).getRank())};
  ArgumentPlan pin{name, {}};
  bool whole = sharding.getPartial().empty();
  for (DimAttr dim : sharding.getDims()) {
    std::vector<std::string> &axes = pin.dims.emplace_back();
    whole &= dim.getChunk() == 0;
    for (AxisAttr axis : dim.getAxes()) {
      axes.push_back(axis.getName().str());
      whole &= axis.getSize() == 0;
    }
  }
  if (!whole)
    return Error{fmt::format(
        "'{}': kerf.sharding of a model's argument may only name whole mesh axes for its dimensions; remove "
        "sub-axes, chunks and partial sums",
        name)};
  return pin;
}

Result<Annotations> extractArgumentPins(ModuleOp module) {
  Annotations found;
  func::FuncOp main = entryOf(module);
  for (BlockArgument argument : main.getArguments())
    if (Attribute attr = main.removeArgAttr(argument.getArgNumber(), KerfDialect::kShardingAttr)) {
      auto pin = argumentPin(argument, attr);
      if (!pin)
        return pin.error();
      found.arguments.push_back(std::move(*pin));
    }
  for (auto &[op, key] : opKeys(module))
    if (op->hasAttr(KerfDialect::kStrategyAttr))
      found.annotated.push_back(withoutNumber(key.key));
  return found;
}

Status extractOpPins(ModuleOp module, Annotations &found) {
  std::vector<std::string> kept;
  for (auto &[op, key] : opKeys(module)) {
    Attribute attr = op->removeAttr(KerfDialect::kStrategyAttr);
    if (!attr)
      continue;
    OpPlan pin{key.key, {}};
    auto entries = dyn_cast<DictionaryAttr>(attr);
    for (NamedAttribute entry : entries ? entries.getValue() : ArrayRef<NamedAttribute>()) {
      auto factor = dyn_cast<StringAttr>(entry.getValue());
      entries = factor ? entries : nullptr;
      if (factor)
        pin.strategy[factor.str()].push_back(entry.getName().str());
    }
    if (!entries)
      return Error{fmt::format("{}: kerf.strategy must have the form {{AXIS = \"FACTOR\", ...}}", key.key)};
    found.ops.push_back(std::move(pin));
    kept.push_back(withoutNumber(key.key));
  }
  for (const std::string &key : found.annotated)
    if (std::none_of(kept.begin(), kept.end(), [&](const std::string &pattern) { return globMatch(pattern, key); }))
      return Error{fmt::format(
          "{}: the operator with this kerf.strategy is not in the training step, because a pass folded it or merged "
          "it into another operator; pin an operator that `kerf plan <json>` lists instead, with "
          "<constraints>",
          key)};
  return ok();
}

void addPins(const TrainingStep &step, Plan &plan) {
  const size_t ops = plan.ops.size(), arguments = plan.arguments.size();
  auto decides = [&](const OpKey &key) {
    return std::any_of(plan.ops.begin(), plan.ops.begin() + ops,
                       [&](const OpPlan &own) { return matchesKey(own.pattern, key); });
  };
  std::map<std::string, OpKey> keys;
  if (!step.ops.empty())
    for (auto &[op, key] : opKeys(*step.module))
      keys[key.key] = key;
  for (const OpPlan &pin : step.ops)
    if (!decides(keys.at(pin.pattern)))
      plan.ops.push_back(pin);
  for (const ArgumentPlan &pin : step.arguments)
    if (std::none_of(plan.arguments.begin(), plan.arguments.begin() + arguments,
                     [&](const ArgumentPlan &own) { return globMatch(own.pattern, pin.pattern); }))
      plan.arguments.push_back(pin);
}

Result<TrainingStep> importDevice(MLIRContext &context, const std::string &path,
                                  const std::optional<std::string> &weights) {
  auto model = readDeviceProgram(context, path, weights);
  if (!model)
    return model.error();
  return bareTrainingStep(std::move(*model));
}

Result<CompileResult> compileDevice(const TrainingStep &device, const std::string &file, const Cluster &cluster) {
  if (Status status = checkOneGroup(cluster, "kerf compile"); !status)
    return status.error();
  ModuleOp module = device.module.get();
  Mesh mesh = meshOf(module), ranks = mesh;
  for (MeshAxis &axis : ranks.axes)
    if (axis.name == KerfDialect::kMicrobatchAxis)
      axis.size = 1;
  if (ranks.ranks() > cluster.ranks())
    return Error{fmt::format("'{}': its kerf.mesh has {} ranks, but {} has {}; give <ranks> {}", file, ranks.ranks(),
                             cluster.name, cluster.ranks(), ranks.ranks())};
  CompileResult compiled;
  Report &report = compiled.report;
  report.cluster = cluster.name;
  report.ranks = cluster.ranks();
  report.mesh = ranks;
  report.usedRanks = ranks.ranks();
  report.memoryLimitBytes = cluster.device.memoryBytes;
  report.warnings = device.warnings;
  DiagnosticCollector collected(module.getContext());
  if (Status status = emitProgram(module, CollectiveModel(ranks, cluster), KernelSource::AsWritten, compiled); !status)
    return Error{fmt::format("'{}': {}{}{}", file, status.error().message, collected.errors.empty() ? "" : ": ",
                             collected.errors)};
  report.stepSeconds = compiled.figures.stepSeconds;
  return compiled;
}

} // namespace kerf
