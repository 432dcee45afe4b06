// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/Layout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

enum Tag : unsigned { kBatch = 1, kSequence = 2, kWidth = 4 };

int leadingFactor(const Rule &rule, const std::vector<int> &factors) {
  for (int factor : factors)
    if (rule.factors[factor].size > 1)
      return factor;
  return factors.empty() ? -1 : factors.front();
}

/// The same scalar everywhere: shared by ops that have nothing to do with each other.
bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<ConstantOp>(op) || (isa<BroadcastInDimOp>(op) && isConstant(op->getOperand(0))));
}

/// Which dimensions of which values are the stream's, and which values are parameters.
class StreamDims {
public:
  explicit StreamDims(ModuleOp module) : module(module), symbols(module) {
    auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    seedInputs(main);
    module.walk([&](ShardingRuleOpInterface op) { ops.emplace_back(op.getOperation(), op.getShardingRule()); });
    for (CallOp call : main.getOps<CallOp>())
      calls.push_back(call);
    seedLayers();
    spread();
    // Tables that are looked up by tokens give the stream its width, those of other indices (distances) do not.
    for (auto &[op, rule] : ops)
      if (auto embedding = dyn_cast<EmbeddingOp>(op))
        if (tags(embedding.getResult(), 0) & kBatch)
          add(embedding.getResult(), tensorType(embedding.getResult()).getRank() - 1, kWidth);
    spread();
  }

  unsigned tags(Value value, unsigned dim) const {
    auto found = tagged.find({value, dim});
    return found == tagged.end() ? 0 : found->second;
  }
  std::vector<unsigned> factorTags(const Rule &rule, ValueRange operands, ValueRange results) const {
    std::vector<unsigned> ofFactors(rule.factors.size(), 0);
    auto read = [&](ValueRange values, const std::vector<FactorMap> &maps) {
      for (size_t i = 0; i < maps.size(); ++i)
        for (size_t d = 0; d < maps[i].size(); ++d)
          if (int factor = leadingFactor(rule, maps[i][d]); factor >= 0)
            ofFactors[factor] |= tags(values[i], d);
    };
    read(operands, rule.operands);
    read(results, rule.results);
    return ofFactors;
  }
  bool isParameter(Value value) const {
    while (Operation *op = value.getDefiningOp()) {
      if (!isa<TransposeOp, ReshapeOp, ConvertOp>(op))
        return false;
      value = op->getOperand(0);
    }
    return parameters.contains(value);
  }

private:
  bool add(Value value, unsigned dim, unsigned tag) {
    unsigned &known = tagged[{value, dim}];
    bool isNew = (known & tag) != tag;
    known |= tag;
    return isNew;
  }

  void seedInputs(func::FuncOp main) {
    for (BlockArgument argument : main.getArguments()) {
      auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
      if (!kind)
        continue;
      int64_t rank = tensorType(argument).getRank();
      if (kind.getValue() == "input" && rank > 0) {
        add(argument, 0, kBatch);
        if (rank == 2 && isa<IntegerType>(tensorType(argument).getElementType()))
          add(argument, 1, kSequence);
      }
      if (kind.getValue() == "parameter" || kind.getValue() == "state")
        parameters.insert(argument);
    }
  }

  /// A layer's stream: handed over by @main, of the type of the layer's first result.
  void seedLayers() {
    for (CallOp call : calls) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments())) {
        if (parameters.contains(outer))
          parameters.insert(inner);
        bool stream = !call->hasAttr(KerfDialect::kBackwardAttr) && !isa<BlockArgument>(outer) &&
                      outer.getType() == call.getResult(0).getType() && tensorType(outer).getRank() >= 3;
        if (!stream)
          continue;
        add(inner, 0, kBatch);
        add(inner, 1, kSequence);
        for (int64_t d = 2; d < tensorType(inner).getRank(); ++d)
          add(inner, d, kWidth);
      }
    }
  }

  bool spreadOp(Operation *op, const Rule &rule) {
    unsigned through =
        isa<DotGeneralOp, AttentionOp, AttentionBackwardOp>(op) ? kBatch | kSequence : kBatch | kSequence | kWidth;
    std::vector<unsigned> ofFactors = factorTags(rule, op->getOperands(), op->getResults());
    bool changed = false;
    auto write = [&](ValueRange values, const std::vector<FactorMap> &maps) {
      for (size_t i = 0; i < maps.size(); ++i)
        for (size_t d = 0; d < maps[i].size() && !isConstant(values[i]); ++d)
          if (int factor = leadingFactor(rule, maps[i][d]); factor >= 0 && (ofFactors[factor] & through))
            changed |= add(values[i], d, ofFactors[factor] & through);
    };
    write(op->getOperands(), rule.operands);
    write(op->getResults(), rule.results);
    return changed;
  }

  bool join(Value a, Value b) {
    bool changed = false;
    for (int64_t d = 0; d < tensorType(a).getRank(); ++d)
      if (unsigned both = tags(a, d) | tags(b, d)) {
        changed |= add(a, d, both);
        changed |= add(b, d, both);
      }
    return changed;
  }

  void spread() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto &[op, rule] : ops)
        changed |= spreadOp(op, rule);
      for (CallOp call : calls) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments()))
          changed |= join(outer, inner);
        for (auto [outer, inner] : llvm::zip(call.getOutputs(), callee.front().getTerminator()->getOperands()))
          changed |= join(outer, inner);
      }
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  std::vector<std::pair<Operation *, Rule>> ops;
  SmallVector<CallOp> calls;
  DenseMap<std::pair<Value, unsigned>, unsigned> tagged;
  DenseSet<Value> parameters;
};

/// A product with a parameter, or one that makes a parameter's gradient: it sums over the batch.
bool hasParameter(const StreamDims &dims, Operation *op, const Rule &rule, const std::vector<unsigned> &factorTags) {
  if (isa<EmbeddingOp, EmbeddingBackwardOp>(op))
    return true;
  if (!isa<DotGeneralOp>(op))
    return false;
  if (llvm::any_of(op->getOperands(), [&](Value value) { return dims.isParameter(value); }))
    return true;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    bool kept =
        llvm::any_of(rule.results[0], [&](const std::vector<int> &dim) { return llvm::is_contained(dim, int(f)); });
    if ((factorTags[f] & kBatch) && !kept)
      return true;
  }
  return false;
}

constexpr int kPreferred = 0, kWhole = 1, kBatchWhole = 2;

} // namespace

StrategyRank megatronLayout(ModuleOp module, const Mesh &mesh, SequenceParallel sequenceParallel) {
  auto dims = std::make_shared<StreamDims>(module);
  int model = mesh.find("model"), data = mesh.find("data");
  int64_t ways = model < 0 ? 1 : mesh.axes[model].size;
  bool alongSequence = sequenceParallel == SequenceParallel::Yes;
  return [=](const PlacementNode &node, ValueRange operands, ValueRange results, const std::vector<bool> &batchFactor,
             const Strategy &strategy) -> std::optional<int> {
    const Rule &rule = node.rule;
    int rank = kPreferred;
    if (data >= 0 && strategy.factorOfAxis[data] < 0)
      for (size_t f = 0; f < batchFactor.size(); ++f)
        if (batchFactor[f] && rule.factors[f].size >= mesh.axes[data].size)
          rank = kBatchWhole;
    if (model < 0)
      return rank;
    int cut = strategy.factorOfAxis[model];
    std::vector<unsigned> tags = dims->factorTags(rule, operands, results);
    auto cuttable = [&](size_t f) {
      return rule.factors[f].size >= ways &&
             (rule.factors[f].kind == FactorKind::Cuttable || rule.factors[f].kind == FactorKind::Decomposed);
    };
    bool isParameter = node.argument && dims->isParameter(node.argument);
    if (node.op && hasParameter(*dims, node.op, rule, tags)) {
      if (cut >= 0 && (rule.factors[cut].kind == FactorKind::PartialSum || tags[cut]))
        return std::nullopt;
      return rank + (cut < 0 ? kWhole : kPreferred);
    }
    bool onStream = false, onSequence = false, ownFactor = false, onBatch = false; // without a batch: parameters
    for (size_t f = 0; f < tags.size(); ++f) {
      onStream |= (tags[f] & kWidth) != 0;
      onBatch |= (tags[f] & kBatch) != 0;
      onSequence |= (tags[f] & kSequence) && cuttable(f);
      ownFactor |= tags[f] == 0 && cuttable(f);
    }
    bool shouldCut = alongSequence && !isParameter && onBatch && onStream && onSequence && !ownFactor;
    if (cut < 0)
      return rank + (shouldCut ? kWhole : kPreferred);
    if (rule.factors[cut].kind == FactorKind::PartialSum || tags[cut] == 0)
      return rank + (shouldCut && rule.factors[cut].kind == FactorKind::PartialSum ? kWhole : kPreferred);
    // What a layer leaves for its backward lies as the layer made it: a number for each token too.
    bool handed = alongSequence && node.argument && !isParameter && onBatch && onSequence;
    if ((shouldCut || handed) && (tags[cut] & kSequence))
      return rank;
    return std::nullopt;
  };
}

} // namespace kerf
