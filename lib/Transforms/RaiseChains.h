// SPDX-License-Identifier: Apache-2.0
// A step before pointwise ops become kernels: a chain that follows a heavy op, such as a matrix product, but reads only
// values from before it, moves up to the ops that make these values, so that one kernel can hold both.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace kerf {

/// Moves chains of pointwise ops up in a block. A chain moves only if the values that it alone reads, and which a
/// kernel of both chains need not store, have at least as many bytes as its own results, which are alive earlier.
/// Chains whose results are reduced stay, because the reduction has to follow them.
class ChainRaiser {
public:
  ChainRaiser(mlir::Block &block, llvm::function_ref<bool(mlir::Operation *)> isPointwise,
              llvm::function_ref<bool(mlir::Operation *)> isHeavy)
      : block(block), isPointwise(isPointwise) {
    int64_t segment = 0;
    for (mlir::Operation &op : block) {
      segment += isHeavy(&op);
      segmentOf[&op] = segment;
    }
  }

  void run() {
    for (auto &[first, chain] : chains())
      raise(chain);
  }

private:
  static int64_t bytesOf(mlir::Value value) {
    auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
    return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
  }
  static mlir::Attribute taskOf(mlir::Operation *op) { return op->getAttr(ir::KerfDialect::kTaskAttr); }

  using Chain = llvm::SmallVector<mlir::Operation *>;

  /// Returns the pointwise ops without heavy ops between them that are connected by their values, in order.
  llvm::MapVector<mlir::Operation *, Chain> chains() {
    llvm::EquivalenceClasses<mlir::Operation *> connected;
    for (mlir::Operation &op : block)
      if (isPointwise(&op)) {
        connected.insert(&op);
        for (mlir::Value operand : op.getOperands())
          if (mlir::Operation *maker = makerOf(operand);
              maker && isPointwise(maker) && segmentOf[maker] == segmentOf[&op])
            connected.unionSets(maker, &op);
      }
    llvm::MapVector<mlir::Operation *, Chain> chains;
    for (mlir::Operation &op : block)
      if (isPointwise(&op))
        chains[connected.getLeaderValue(&op)].push_back(&op);
    return chains;
  }

  /// Returns the op of the block that makes a value; null for arguments.
  mlir::Operation *makerOf(mlir::Value value) const {
    mlir::Operation *maker = value.getDefiningOp();
    return maker && maker->getBlock() == &block ? maker : nullptr;
  }

  void raise(const Chain &chain) {
    llvm::SmallDenseSet<mlir::Operation *> inside(chain.begin(), chain.end());
    if (!llvm::all_of(chain, [&](mlir::Operation *op) { return taskOf(op) == taskOf(chain.front()); }))
      return;
    // The ops that move along: constants and broadcasts, which kernels compute themselves.
    llvm::SetVector<mlir::Operation *> along;
    llvm::SetVector<mlir::Value> read;
    llvm::SmallVector<mlir::Value> open;
    for (mlir::Operation *op : chain)
      open.append(op->operand_begin(), op->operand_end());
    while (!open.empty()) {
      mlir::Value value = open.pop_back_val();
      mlir::Operation *maker = makerOf(value);
      if (!maker || inside.contains(maker))
        continue;
      if (!mlir::isa<ir::ConstantOp, ir::BroadcastInDimOp>(maker))
        read.insert(value);
      else if (along.insert(maker))
        open.append(maker->operand_begin(), maker->operand_end());
    }
    mlir::Operation *last = nullptr; // the last op that makes a value that the chain reads
    for (mlir::Value value : read)
      if (mlir::Operation *maker = value.getDefiningOp(); !last || last->isBeforeInBlock(maker))
        last = maker;
    if (!last || !isPointwise(last) || taskOf(last) != taskOf(chain.front()) ||
        segmentOf[last] == segmentOf[chain.front()] || !pays(inside, read, segmentOf[last]))
      return;
    move(chain, along, last);
  }

  /// Returns whether the values that only the chain and the ops of the segment read have at least as many bytes as the
  /// results of the chain, none of which is reduced.
  bool pays(const llvm::SmallDenseSet<mlir::Operation *> &inside, const llvm::SetVector<mlir::Value> &read,
            int64_t segment) {
    int64_t notStored = 0, early = 0;
    for (mlir::Value value : read)
      if (isPointwise(value.getDefiningOp()) && segmentOf[value.getDefiningOp()] == segment &&
          llvm::all_of(value.getUsers(), [&](mlir::Operation *user) {
            return inside.contains(user) || (isPointwise(user) && segmentOf[user] == segment);
          }))
        notStored += bytesOf(value);
    for (mlir::Operation *op : inside) {
      bool leaves = false;
      for (mlir::Operation *user : op->getUsers()) {
        if (mlir::isa<ir::ReduceOp>(user))
          return false;
        leaves |= !inside.contains(user);
      }
      early += leaves ? bytesOf(op->getResult(0)) : 0;
    }
    return notStored > 0 && notStored >= early;
  }

  void move(const Chain &chain, const llvm::SetVector<mlir::Operation *> &along, mlir::Operation *after) {
    llvm::SmallVector<mlir::Operation *> moved(chain);
    llvm::copy_if(along, std::back_inserter(moved), [&](mlir::Operation *op) { return after->isBeforeInBlock(op); });
    llvm::sort(moved, [](mlir::Operation *a, mlir::Operation *b) { return a->isBeforeInBlock(b); });
    int64_t segment = segmentOf[after];
    for (mlir::Operation *op : moved) {
      op->moveAfter(after);
      segmentOf[op] = segment;
      after = op;
    }
  }

  mlir::Block &block;
  llvm::function_ref<bool(mlir::Operation *)> isPointwise;
  mlir::DenseMap<mlir::Operation *, int64_t> segmentOf; // for each op: the number of heavy ops up to it
};

} // namespace kerf
