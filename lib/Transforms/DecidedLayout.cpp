// SPDX-License-Identifier: Apache-2.0
// The strategies of a solved problem, applied to the same module with another batch size.
#include "kerf/Transforms/Layout.h"

#include "llvm/ADT/Hashing.h"

using namespace mlir;

namespace kerf {

/// Returns the number of each argument and result, in module order.
static llvm::DenseMap<Value, int> numbered(ModuleOp module) {
  llvm::DenseMap<Value, int> numbers;
  auto number = [&](ValueRange values) {
    for (Value value : values)
      numbers.try_emplace(value, static_cast<int>(numbers.size()));
  };
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        number(block.getArguments());
    number(op->getResults());
  });
  return numbers;
}

static size_t structureOf(ModuleOp module, const llvm::DenseMap<Value, int> &numbers) {
  llvm::hash_code hash(0);
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    hash = llvm::hash_combine(hash, op->getName().getStringRef(), op->getNumResults());
    for (Value operand : op->getOperands())
      hash = llvm::hash_combine(hash, numbers.lookup(operand));
    for (Value result : op->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType()))
        hash = llvm::hash_combine(hash, type.getRank());
  });
  return hash;
}

DecidedLayout decidedLayout(ModuleOp module, const Placement &placement, const std::vector<int> &choice) {
  llvm::DenseMap<Value, int> numbers = numbered(module);
  DecidedLayout decided{structureOf(module, numbers), {}};
  for (auto [node, chosen] : llvm::zip_equal(placement.nodes, choice)) {
    Value value = node.op ? Value(node.op->getResult(0)) : node.argument ? Value(node.argument) : node.reshardedValue;
    decided.strategies[{numbers.lookup(value), node.reshardedValue != nullptr}] = node.strategies[chosen];
  }
  return decided;
}

DecidedStrategy strategiesOfLayout(ModuleOp module, const DecidedLayout &decided) {
  llvm::DenseMap<Value, int> numbers = numbered(module);
  if (structureOf(module, numbers) != decided.structure)
    return {};
  return [numbers = std::move(numbers), strategies = decided.strategies](const PlacementNode &node,
                                                                         ValueRange results) -> const Strategy * {
    auto its = strategies.find({numbers.lookup(results.front()), node.reshardedValue != nullptr});
    return its == strategies.end() ? nullptr : &its->second;
  };
}

} // namespace kerf
