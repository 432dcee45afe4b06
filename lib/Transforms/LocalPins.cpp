// SPDX-License-Identifier: Apache-2.0
// Translation of pins from the axes of a plan to the mesh of one layout, which has sub-axes of some of them
// and lacks others.
#include "BatchFactors.h"
#include "kerf/Support/Glob.h"
#include "kerf/Transforms/Layout.h"
#include "kerf/Transforms/OpKeys.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <fmt/format.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Returns the axes with "model" replaced by its sub-axes in `local`. Axes of one rank are left out, and so is "data"
/// where it only counts microbatches.
Result<std::vector<std::string>> localAxes(const std::vector<std::string> &axes, const Mesh &local) {
  std::vector<std::string> names;
  for (const std::string &axis : axes) {
    if (planAxis(axis) < 0 || axis == "stage")
      return Error{
          fmt::format("there is no mesh axis \"{}\" that shards ops; give data, context, expert or model", axis)};
    for (const MeshAxis &one : local.axes)
      if (one.size > 1 && (one.name == axis || one.name.starts_with(axis + "/")))
        names.push_back(one.name);
  }
  return names;
}

bool names(const std::vector<std::string> &axes, const char *axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// Checks that pins use "data" for the batch only, which it shards in every op anyway.
Status checkData(ModuleOp module, const Plan &pins) {
  BatchDims batch(module);
  for (const auto &[op, key] : opKeys(module)) {
    size_t i = entryOf(pins.ops, key);
    if (i == pins.ops.size())
      continue;
    const OpPlan &pin = pins.ops[i];
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    std::vector<bool> batchFactor = batch.batchFactors(rule, op->getOperands(), op->getResults());
    for (const auto &[factor, axes] : pin.strategy)
      for (size_t f = 0; f < rule.factors.size(); ++f)
        if (names(axes, "data") && rule.factors[f].name == factor && !batchFactor[f])
          return Error{fmt::format("ops[\"{}\"] for {}: \"data\" shards the batch only, and {} is no factor of the "
                                   "batch; shard it over another axis",
                                   pin.pattern, key.key, factor)};
  }
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      for (const ArgumentPlan &pin : pins.arguments) {
        if (!globMatch(pin.pattern, argumentKey(argument)))
          continue;
        for (size_t d = 0; d < pin.dims.size(); ++d)
          if (names(pin.dims[d], "data") && !batch.isBatch(argument, static_cast<unsigned>(d)))
            return Error{fmt::format("arguments[\"{}\"] for {}: \"data\" shards the batch only, and dimension {} is "
                                     "not the batch; optimizer_sharding shards optimizer states by data",
                                     pin.pattern, argumentKey(argument), d)};
        break;
      }
  return ok();
}

} // namespace

Result<Plan> localPins(ModuleOp module, const Plan &pins, const Mesh &local) {
  if (Status status = checkData(module, pins); !status)
    return status.error();
  Plan here;
  for (const OpPlan &pin : pins.ops) {
    OpPlan op{pin.pattern, {}};
    for (const auto &[factor, axes] : pin.strategy) {
      auto its = localAxes(axes, local);
      if (!its)
        return Error{fmt::format("ops[\"{}\"]: {}", pin.pattern, its.error().message)};
      op.strategy[factor] = std::move(*its);
    }
    here.ops.push_back(std::move(op));
  }
  for (const ArgumentPlan &pin : pins.arguments) {
    ArgumentPlan argument{pin.pattern, {}};
    for (const std::vector<std::string> &axes : pin.dims) {
      auto its = localAxes(axes, local);
      if (!its)
        return Error{fmt::format("arguments[\"{}\"]: {}", pin.pattern, its.error().message)};
      argument.dims.push_back(std::move(*its));
    }
    here.arguments.push_back(std::move(argument));
  }
  return here;
}

} // namespace kerf
