// SPDX-License-Identifier: Apache-2.0
// Conversion of a solution of the placement problem to a plan, and of a plan to attributes of the IR.
#include "kerf/Support/Glob.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/Placement.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

std::vector<std::vector<std::string>> axisNames(const Mesh &mesh, const Sharding &sharding) {
  std::vector<std::vector<std::string>> dims;
  for (const DimSharding &dim : sharding.dims) {
    std::vector<std::string> names;
    for (const AxisRef &axis : dim.axes)
      names.push_back(mesh.axes[axis.axis].name);
    dims.push_back(std::move(names));
  }
  return dims;
}

/// Returns the name with `*` in place of numbers: "transformer.h.*.ln_1.weight" for "transformer.h.11.ln_1.weight".
std::string withoutNumbers(StringRef name) {
  std::string pattern;
  for (StringRef rest = name; !rest.empty();) {
    auto [part, after] = rest.split('.');
    bool number = !part.empty() && llvm::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    pattern += number ? "*" : part.str();
    if (rest.size() > part.size())
      pattern += ".";
    rest = after;
  }
  return pattern;
}

/// Merges entries into patterns: one entry for a pattern if all arguments that match it have one sharding, else
/// one for each.
std::vector<ArgumentPlan> fold(const std::vector<ArgumentPlan> &exact) {
  std::vector<ArgumentPlan> folded;
  std::map<std::string, bool> alike; // by pattern: whether all its arguments have one sharding
  for (const ArgumentPlan &argument : exact) {
    std::string pattern = withoutNumbers(argument.pattern);
    auto [entry, isNew] = alike.try_emplace(pattern, true);
    if (isNew)
      entry->second = llvm::all_of(exact, [&](const ArgumentPlan &other) {
        return !globMatch(pattern, other.pattern) || other.dims == argument.dims;
      });
    if (!entry->second)
      folded.push_back(argument);
    else if (isNew)
      folded.push_back({pattern, argument.dims});
  }
  return folded;
}

} // namespace

void writeChoice(ModuleOp module, const Placement &placement, const std::vector<int> &choice, Plan &plan) {
  auto keys = opKeys(module);
  plan.ops.clear();
  std::vector<ArgumentPlan> arguments;
  for (size_t i = 0; i < placement.nodes.size(); ++i) {
    const PlacementNode &node = placement.nodes[i];
    if (node.argument)
      arguments.push_back(
          {argumentKey(node.argument), axisNames(placement.mesh, node.shardings[choice[i]].results[0])});
    if (!node.op)
      continue;
    OpPlan op{keys[node.op].key, {}};
    const Strategy &strategy = node.strategies[choice[i]];
    for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis)
      if (int factor = strategy.factorOfAxis[axis]; factor >= 0)
        op.strategy[node.rule.factors[factor].name].push_back(placement.mesh.axes[axis].name);
    plan.ops.push_back(std::move(op));
  }
  plan.arguments = fold(arguments);
}

Status applyPlan(ModuleOp module, const Plan &plan) {
  MLIRContext *context = module.getContext();
  Mesh mesh = plan.mesh();
  for (MeshOp op : llvm::make_early_inc_range(module.getOps<MeshOp>()))
    op.erase();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  MeshOp::create(builder, module.getLoc(), builder.getStringAttr(KerfDialect::kMeshName),
                 MeshAttr::fromMesh(context, mesh));

  auto keys = opKeys(module);
  std::vector<bool> used(plan.ops.size(), false);
  // Most patterns of a saved plan are complete keys, which are looked up here. Only the others are compared one by one.
  std::map<std::string, size_t> exact;
  for (size_t i = 0; i < plan.ops.size(); ++i)
    exact.try_emplace(plan.ops[i].pattern, i);
  for (auto &[op, key] : keys) {
    size_t found = plan.ops.size();
    if (auto entry = exact.find(key.key); entry != exact.end())
      found = entry->second;
    else
      found = llvm::find_if(plan.ops, [&](const OpPlan &entry) { return matchesKey(entry.pattern, key); }) -
              plan.ops.begin();
    if (found == plan.ops.size())
      continue;
    used[found] = true;
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    auto strategy = parseOpPlan(plan.ops[found], mesh, rule);
    if (!strategy)
      return Error{
          fmt::format("the plan's ops[\"{}\"] for {}: {}", plan.ops[found].pattern, key.key, strategy.error().message)};
    for (int &factor : strategy->factorOfAxis)
      factor = std::max(factor, -1);
    if (!project(rule, mesh, *strategy))
      return Error{
          fmt::format("the plan's ops[\"{}\"] cannot be carried out on {}; choose a strategy that its rule allows: {}",
                      plan.ops[found].pattern, key.key, toString(rule))};
    op->setAttr(KerfDialect::kStrategyAttr, strategyAttr(context, mesh, rule, *strategy));
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      return Error{fmt::format("the plan's ops[\"{}\"] matches no op; make the plan for this model and these options",
                               plan.ops[i].pattern)};

  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<DictionaryAttr> attributes; // set at once, because each change would copy all of them
    for (BlockArgument argument : function.getArguments()) {
      std::string name = argumentKey(argument);
      Shape shape = shapeOf(argument);
      Rule rule = argumentRule(shape);
      Strategy strategy{std::vector<int>(mesh.axes.size(), -1)};
      auto entry = llvm::find_if(plan.arguments, [&](const ArgumentPlan &p) { return globMatch(p.pattern, name); });
      if (entry != plan.arguments.end()) {
        auto parsed = parseArgumentPlan(*entry, mesh, rule, name);
        if (!parsed)
          return Error{
              fmt::format("the plan's {}; make the plan for this model and this mesh", parsed.error().message)};
        strategy = *parsed;
      }
      auto sharding = project(rule, mesh, strategy);
      if (!sharding)
        return Error{fmt::format(
            "the plan's arguments[\"{}\"] cannot be carried out on {}; shard other dimensions, or over other axes",
            entry->pattern, name)};
      NamedAttrList described(function.getArgAttrDict(argument.getArgNumber()));
      described.set(KerfDialect::kShardingAttr, ShardingAttr::fromSharding(context, mesh, shape, sharding->results[0]));
      attributes.push_back(described.getDictionary(context));
    }
    function.setAllArgAttrs(attributes);
  }
  return ok();
}

} // namespace kerf
