// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/ExpertLayout.h"
#include "BatchFactors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <memory>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Properties of a dimension. kSlots: it counts the slots of experts, or the experts that a router chooses from.
/// kExpert: it counts experts in a way that allows sharding it.
enum ExpertTag : unsigned { kSlots = 1, kExpert = 2 };

/// An analysis that follows the dimensions of experts and slots through all ops, layers and parameters.
class ExpertDims {
public:
  explicit ExpertDims(ModuleOp module) : symbols(module) {
    ops = opsWithRules(module);
    module.walk([&](CallOp call) { calls.push_back(call); });
    for (auto &[op, rule] : ops) {
      if (auto routing = dyn_cast<RoutingOpInterface>(op)) {
        add(routing.getSlots(), 0, kExpert);
        add(routing.getSlots(), 2, kSlots);
      }
      if (auto pick = dyn_cast<TopKOp>(op))
        add(pick.getScores(), tensorType(pick.getScores()).getRank() - 1, kSlots);
    }
    for (bool changed = !tagged.empty(); changed;) {
      changed = false;
      for (auto &[op, rule] : ops)
        changed |= spread(op, rule);
      for (CallOp call : calls) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments()))
          changed |= join(outer, inner);
        for (auto [outer, inner] : llvm::zip(call.getOutputs(), callee.front().getTerminator()->getOperands()))
          changed |= join(outer, inner);
      }
    }
  }

  std::vector<unsigned> factorTags(const Rule &rule, ValueRange operands, ValueRange results) const {
    std::vector<unsigned> tags(rule.factors.size(), 0);
    auto read = [&](ValueRange values, const std::vector<FactorMap> &maps) {
      for (size_t i = 0; i < maps.size(); ++i)
        for (size_t d = 0; d < maps[i].size(); ++d)
          if (maps[i][d].size() == 1)
            tags[maps[i][d].front()] |= tagged.lookup({values[i], static_cast<unsigned>(d)});
    };
    read(operands, rule.operands);
    read(results, rule.results);
    return tags;
  }

  /// Returns whether a layer's backward function reads the argument, which holds slots, only to move them
  /// to their tokens.
  bool isForRouting(Value argument) const {
    return llvm::all_of(argument.getUsers(), [&](Operation *user) { return isa<RoutingOpInterface>(user); });
  }

private:
  bool add(Value value, unsigned dim, unsigned tag) {
    unsigned &known = tagged[{value, dim}];
    bool isNew = (known & tag) != tag;
    known |= tag;
    return isNew;
  }

  bool spread(Operation *op, const Rule &rule) {
    std::vector<unsigned> tags = factorTags(rule, op->getOperands(), op->getResults());
    bool changed = false;
    auto write = [&](ValueRange values, const std::vector<FactorMap> &maps) {
      for (size_t i = 0; i < maps.size(); ++i)
        for (size_t d = 0; d < maps[i].size() && !isConstant(values[i]); ++d)
          if (maps[i][d].size() == 1 && tags[maps[i][d].front()])
            changed |= add(values[i], d, tags[maps[i][d].front()]);
    };
    write(op->getOperands(), rule.operands);
    write(op->getResults(), rule.results);
    return changed;
  }

  bool join(Value a, Value b) {
    bool changed = false;
    for (int64_t d = 0; d < tensorType(a).getRank(); ++d)
      if (unsigned both = tagged.lookup({a, d}) | tagged.lookup({b, d})) {
        changed |= add(a, d, both);
        changed |= add(b, d, both);
      }
    return changed;
  }

  SymbolTable symbols;
  std::vector<std::pair<Operation *, Rule>> ops;
  SmallVector<CallOp> calls;
  DenseMap<std::pair<Value, unsigned>, unsigned> tagged;
};

constexpr int kWorst = 1 << 16; // above every value of the layout's own preference

} // namespace

int64_t expertsOf(ModuleOp module) {
  int64_t fewest = 0;
  module.walk([&](DispatchOp op) {
    auto experts = static_cast<int64_t>(op.getExperts());
    fewest = fewest ? std::min(fewest, experts) : experts;
  });
  return fewest;
}

RuleOfOp rulesWithExpertGroups(const Mesh &mesh, RuleOfOp rules) {
  int context = mesh.find("context");
  int64_t shards = context < 0 ? 1 : mesh.axes[context].size;
  return [=](Operation *op) {
    Rule rule = rules ? rules(op) : cast<ShardingRuleOpInterface>(op).getShardingRule();
    if (shards <= 1 || !isa<RoutingOpInterface>(op))
      return rule;
    // ([b, s, d], ...) -> ([e, b, c, d]) becomes ([b, gs, d], ...) -> ([e, b, gc, d]), where g is the size of "context"
    auto named = [&](const char *name) {
      return std::find_if(rule.factors.begin(), rule.factors.end(), [&](const Factor &f) { return f.name == name; });
    };
    auto tokens = named("s"), slots = named("c");
    if (tokens->size % shards != 0 || slots->size % shards != 0)
      return rule;
    tokens->size /= shards;
    slots->size /= shards;
    int s = static_cast<int>(tokens - rule.factors.begin()), c = static_cast<int>(slots - rule.factors.begin()),
        g = static_cast<int>(rule.factors.size());
    rule.factors.emplace_back().name = "g";
    rule.factors.back().size = shards;
    for (std::vector<FactorMap> *maps : {&rule.operands, &rule.results})
      for (FactorMap &map : *maps)
        for (std::vector<int> &dim : map)
          if (dim == std::vector<int>{s} || dim == std::vector<int>{c})
            dim.insert(dim.begin(), g);
    return rule;
  };
}

StrategyPreference preferenceWithExperts(ModuleOp module, const Mesh &mesh, StrategyPreference layout) {
  if (mesh.find("expert") < 0 && expertsOf(module) == 0)
    return layout;
  auto dims = std::make_shared<ExpertDims>(module);
  int expert = mesh.find("expert");
  int64_t shards = expert < 0 ? 1 : mesh.axes[expert].size;
  return [=](const PlacementNode &node, ValueRange operands, ValueRange results,
             const std::vector<bool> &batchFactor) -> StrategyRank {
    const Rule &rule = node.rule;
    std::vector<unsigned> tags = dims->factorTags(rule, operands, results);
    bool routes = node.op && isa<RoutingOpInterface>(node.op);
    bool anyway = node.op && node.op->getNumResults() == 1 && isConstant(node.op->getResult(0));
    auto firstOf = [&](auto holds) {
      for (size_t f = 0; f < rule.factors.size(); ++f)
        if (holds(f) && rule.factors[f].size >= shards && rule.factors[f].kind != FactorKind::Replicated)
          return static_cast<int>(f);
      return -1;
    };
    int ofExperts = firstOf([&](size_t f) { return (tags[f] & kExpert) != 0; }),
        ofBatch = firstOf([&](size_t f) { return bool(batchFactor[f]); });
    bool toTokens = node.op ? routes : node.argument && dims->isForRouting(node.argument);
    int wanted = ofExperts >= 0 && !(toTokens && ofBatch >= 0) ? ofExperts : ofBatch;
    std::vector<size_t> modelAxes; // with the sub-axes of "model"
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
      if (mesh.axes[axis].name.starts_with("model"))
        modelAxes.push_back(axis);
    return [=, &rule, ofLayout = layout(node, operands, results, batchFactor),
            within = Strategy()](const Strategy &strategy) mutable -> std::optional<int> {
      for (size_t axis : modelAxes)
        if (int cut = strategy.factorOfAxis[axis]; cut >= 0 && tags[cut])
          return std::nullopt;
      within = strategy;
      for (size_t axis : modelAxes)
        if (int cut = strategy.factorOfAxis[axis]; routes && cut >= 0 && rule.factors[cut].name == "d")
          within.factorOfAxis[axis] = -1; // the layout takes this factor for the width of the residual stream
      std::optional<int> rank = ofLayout(within);
      if (!rank || shards <= 1 || anyway)
        return rank;
      int cut = strategy.factorOfAxis[expert];
      if (cut >= 0 && cut != ofExperts && cut != ofBatch && rule.factors[cut].kind != FactorKind::PartialSum)
        return std::nullopt;
      return *rank + (cut == wanted || wanted < 0 ? 0 : kWorst);
    };
  };
}

} // namespace kerf
