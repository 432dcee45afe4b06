// SPDX-License-Identifier: Apache-2.0
#include "GroupElementwise.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Returns the scalar that a broadcast copies to every element, or null.
Value repeatedScalar(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  return broadcast && tensorType(broadcast.getOperand()).getRank() == 0 ? broadcast.getOperand() : Value();
}

/// Returns the scalar constant that a value is a broadcast of, or null.
ConstantOp scalarConstant(Value value) {
  if (Value scalar = repeatedScalar(value))
    value = scalar;
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && tensorType(constant.getResult()).getRank() == 0 ? constant : ConstantOp();
}

struct Group {
  SmallVector<Operation *> ops;    // elementwise ops of one shape
  SmallVector<Operation *> others; // ops that are not grouped
};

class Grouping {
public:
  Grouping(OpBuilder &builder, ArrayRef<Operation *> ops, MutableArrayRef<Value> results)
      : builder(builder), ops(ops), results(results) {}

  SmallVector<Operation *> run() {
    for (Operation *op : ops)
      if (isTaken(op))
        taken.insert(op);
    for (Operation *op : ops)
      if (!taken.contains(op))
        phases[op] = phaseOf(op);
    std::map<int64_t, std::map<Shape, Group>> byPhase;
    for (Operation *op : ops)
      if (!taken.contains(op)) {
        auto &[grouped, others] = byPhase[phases.lookup(op)][keyOf(op)];
        (isElementwise(op) ? grouped : others).push_back(op);
      }
    SmallVector<Operation *> order;
    for (auto &[phase, groups] : byPhase)
      for (auto &[shape, group] : groups) {
        if (!group.ops.empty())
          order.push_back(outline(group.ops));
        for (Operation *op : group.others) {
          op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
          order.push_back(op);
        }
      }
    for (Operation *op : llvm::reverse(ops))
      if (isGone(op))
        op->erase();
    return order;
  }

private:
  static bool isElementwise(Operation *op) { return op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1; }
  /// Returns whether the op moves into the maps that use it, instead of becoming part of a group.
  bool isTaken(Operation *op) const {
    if (isa<ConstantOp>(op))
      return true;
    return op->getNumResults() == 1 && repeatedScalar(op->getResult(0)) &&
           !llvm::is_contained(results, op->getResult(0)) && llvm::all_of(op->getUsers(), isElementwise);
  }
  bool isGone(Operation *op) const { return isElementwise(op) || (taken.contains(op) && op->use_empty()); }
  static Shape keyOf(Operation *op) { return shapeOf(op->getResult(0)); }

  /// Returns the op's phase: the number of times that the values on which it depends pass from one group to another. An
  /// op comes after all ops that it depends on, and ops that can be in one map have the same phase.
  int64_t phaseOf(Operation *op) const {
    int64_t phase = 0;
    for (Value operand : op->getOperands()) {
      Value scalar = repeatedScalar(operand);
      Operation *maker = scalar ? scalar.getDefiningOp() : operand.getDefiningOp();
      auto known = maker ? phases.find(maker) : phases.end();
      if (known == phases.end())
        continue;
      bool together = isElementwise(op) && isElementwise(maker) && keyOf(op) == keyOf(maker);
      phase = std::max(phase, known->second + (together ? 0 : 1));
    }
    return phase;
  }

  Operation *outline(ArrayRef<Operation *> members) {
    llvm::SmallDenseSet<Operation *> inside(members.begin(), members.end());
    llvm::SetVector<Value> inputs, outputs;
    for (Operation *op : members) {
      for (Value operand : op->getOperands()) {
        if (inside.contains(operand.getDefiningOp()) || scalarConstant(operand))
          continue;
        Value scalar = repeatedScalar(operand);
        inputs.insert(scalar ? scalar : operand);
      }
      Value made = op->getResult(0);
      if (llvm::is_contained(results, made) ||
          llvm::any_of(made.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        outputs.insert(made);
    }
    SmallVector<Type> types;
    for (Value output : outputs)
      types.push_back(output.getType());
    auto map = MapOp::create(builder, members.back()->getLoc(), types, inputs.getArrayRef());
    fill(map, members, inputs.getArrayRef(), outputs.getArrayRef());
    for (auto [index, made] : llvm::enumerate(map.getResults())) {
      Value old = outputs[index];
      old.replaceUsesWithIf(made, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
      for (Value &result : results)
        result = result == old ? made : result;
    }
    return map;
  }

  static void fill(MapOp map, ArrayRef<Operation *> members, ArrayRef<Value> inputs, ArrayRef<Value> outputs) {
    OpBuilder body(map.getContext());
    Block *block = body.createBlock(&map.getBody());
    IRMapping mapping;
    auto scalarType = [](Value value) { return RankedTensorType::get({}, tensorType(value).getElementType()); };
    for (Value input : inputs)
      mapping.map(input, block->addArgument(scalarType(input), input.getLoc()));
    for (Operation *op : members) {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands()) {
        Value scalar = repeatedScalar(operand);
        Value inner = scalar ? scalar : operand;
        if (auto constant = scalarConstant(operand); constant && !mapping.contains(inner))
          mapping.map(inner, body.clone(*constant)->getResult(0));
        operands.push_back(mapping.lookup(inner));
      }
      Type type = scalarType(op->getResult(0));
      mapping.map(op->getResult(0), cloneWithTypes(body, op, operands, type).front());
    }
    SmallVector<Value> yielded;
    for (Value output : outputs)
      yielded.push_back(mapping.lookup(output));
    YieldOp::create(body, map.getLoc(), yielded);
  }

  OpBuilder &builder;
  ArrayRef<Operation *> ops;
  MutableArrayRef<Value> results;
  llvm::SmallPtrSet<Operation *, 32> taken;
  DenseMap<Operation *, int64_t> phases;
};

} // namespace

SmallVector<Operation *> groupElementwise(OpBuilder &builder, ArrayRef<Operation *> ops,
                                          MutableArrayRef<Value> results) {
  return Grouping(builder, ops, results).run();
}

} // namespace kerf
