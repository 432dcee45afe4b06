// SPDX-License-Identifier: Apache-2.0
// A layout that was decided for a module of one batch, carried over to the same module of another.
#include "kerf/Transforms/Layout.h"

using namespace mlir;

namespace kerf {

/// Arguments and results in the order of the module.
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

DecidedLayout decidedLayout(ModuleOp module, const Placement &placement, const std::vector<int> &choice) {
  llvm::DenseMap<Value, int> numbers = numbered(module);
  DecidedLayout decided;
  for (auto [node, chosen] : llvm::zip_equal(placement.nodes, choice)) {
    Value value = node.op ? Value(node.op->getResult(0)) : node.argument ? Value(node.argument) : node.seenByUsers;
    decided[{numbers.lookup(value), node.seenByUsers != nullptr}] = node.strategies[chosen];
  }
  return decided;
}

DecidedStrategy followLayout(ModuleOp module, DecidedLayout decided) {
  return [numbers = numbered(module), decided = std::move(decided)](const PlacementNode &node,
                                                                    ValueRange results) -> const Strategy * {
    auto its = decided.find({numbers.lookup(results.front()), node.seenByUsers != nullptr});
    return its == decided.end() ? nullptr : &its->second;
  };
}

} // namespace kerf
