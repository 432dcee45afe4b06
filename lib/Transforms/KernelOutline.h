// SPDX-License-Identifier: Apache-2.0
// How ops of a block become a kernel: a function that is called where the last of them stood.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Transforms/EmitPackage.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace kerf {

/// Returns whether the value has elements that kernels compute: floating types and i1.
bool hasKernelElements(mlir::Value value);
/// Returns whether a kernel can contain the op although one of its types is an integer: a conversion to or from codes
/// of one byte, or random numbers from keys.
bool isCodecOp(mlir::Operation *op);
/// Returns whether a kernel can contain the op, which computes each element of its result from the same element of its
/// operands.
bool isPointwise(mlir::Operation *op);
/// Returns whether the op neither computes nor moves elements.
bool isView(mlir::Operation *op);
/// Returns whether the value is a constant whose elements are equal.
bool isSplat(mlir::Value value);
/// Returns the bytes of a tensor.
int64_t bytesOfTensor(mlir::Value value);

/// The order of a block's ops, which tells whether ops may be delayed to the position of a later one.
class BlockOrder {
public:
  BlockOrder() = default;
  /// Reads the order. Values are kept in memory while an op runs for which `isHeavy` returns true.
  BlockOrder(mlir::Block &block, llvm::function_ref<bool(mlir::Operation *)> isHeavy);
  /// Returns whether the ops of a group may be delayed to `last`, where they and the ops `own` become one kernel: no
  /// other op reads their results earlier, and where heavy ops stand in between, delaying them keeps no more memory
  /// alive than fusion saves.
  bool mayDelay(const llvm::SetVector<mlir::Operation *> &group, const llvm::SetVector<mlir::Operation *> &own,
                mlir::Operation *last) const;
  /// Sorts ops by their position.
  void sort(mlir::SmallVectorImpl<mlir::Operation *> &ops) const;

private:
  int64_t lastUse(mlir::Value value) const;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  std::vector<int64_t> heavyBefore; // the number of heavy ops before each position
};

/// Puts the ops of a new group in the order of the block, and notes in `groupOf` that they belong to it.
template <typename Group>
void settle(Group &group, const BlockOrder &order, llvm::DenseMap<mlir::Operation *, Group *> &groupOf) {
  llvm::SmallVector<mlir::Operation *> sorted = group.ops.takeVector();
  order.sort(sorted);
  for (mlir::Operation *member : sorted) {
    group.ops.insert(member);
    groupOf[member] = &group;
  }
}
/// Erases the block's constants without uses, which kernels have taken as copies.
void eraseUnusedConstants(mlir::Block &block);

/// The arguments and results of a kernel, and the broadcasts that it computes itself.
struct KernelOutline {
  llvm::SetVector<mlir::Value> arguments;
  llvm::SetVector<mlir::Operation *> broadcasts;
  mlir::SmallVector<mlir::Value> results;
};
/// Returns the outline of a kernel with these ops, which are in the order of the block. The kernel computes a broadcast
/// of a value from outside itself if `takes` returns true for it.
KernelOutline outlineOf(llvm::ArrayRef<mlir::Operation *> ops, llvm::function_ref<bool(ir::BroadcastInDimOp)> takes);

/// Makes kernels of ops of a module. Groups with equal ops share a function.
class KernelMaker {
public:
  KernelMaker(mlir::SymbolTable &symbols, mlir::Operation *firstFunction)
      : symbols(symbols), firstFunction(firstFunction) {}

  /// Replaces the ops by a call of a kernel at the position of the last one.
  void replace(llvm::ArrayRef<mlir::Operation *> ops, const KernelOutline &outline);

private:
  mlir::func::FuncOp kernelFor(llvm::ArrayRef<mlir::Operation *> ops, const KernelOutline &outline);

  mlir::SymbolTable &symbols;
  mlir::Operation *firstFunction; // kernels are placed before it
  llvm::StringMap<mlir::func::FuncOp> byText;
};

} // namespace kerf
