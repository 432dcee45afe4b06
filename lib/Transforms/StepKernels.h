// SPDX-License-Identifier: Apache-2.0
// Ops of one pass become kernels as frameworks launch them: chains of pointwise ops are one kernel, a bias is the
// epilogue of its product, views are free. Private to the bridge from IR to work (ModelWork.cpp).
#pragma once

#include "kerf/CostModel/StepWork.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <functional>

namespace kerf {

struct KernelTypes {
  std::string product = "f32"; // dtype of products
  std::string other = "f32";   // of everything else
  double bytes = 4;            // of one element of a floating tensor
  bool fusedAttention = true;
};

/// Bytes of an element: floating ones are of `types`, statistics of norms and losses f32 at least.
double elementBytes(mlir::Value value, const KernelTypes &types);

/// The local shape of an operand or a result.
using LocalShape = std::function<Shape(mlir::Operation *op, bool isResult, unsigned index)>;
/// How an op is cut, as Kernel::cuts says it.
using CutsOf = std::function<std::string(mlir::Operation *op)>;

class KernelBuilder {
public:
  KernelBuilder(const KernelTypes &types, LocalShape localShape, CutsOf cutsOf)
      : types(types), localShape(std::move(localShape)), cutsOf(std::move(cutsOf)) {}

  /// Values that no kernel writes for the backward, and the arguments by which the backward knows them: its kernels
  /// compute them again.
  void setMadeAgain(const llvm::DenseSet<mlir::Value> &values) { madeAgain = values; }
  /// What a plan says of recomputation, op by op; empty: nothing.
  void setRunAgain(const llvm::DenseMap<mlir::Operation *, RunAgain> &ops) { runAgain = ops; }
  /// Kernels of the ops added from here on. Ops of different passes are not fused.
  void beginPass() { passBegin = slots.size(); }
  void add(mlir::Operation *op);
  /// A layer norm's backward is one op; its two halves belong to different passes.
  void addNormBackward(mlir::Operation *op, PassWork &weights);
  void endPass(PassWork &pass);

  /// The op costs nothing: its result is a view, or written by the product before it.
  static bool isVirtual(mlir::Operation *op);
  /// The value lies in memory: it is used outside of the kernel that makes it.
  bool isStored(mlir::Value value) const;
  double operandBytes(mlir::Operation *op, unsigned i) const;
  double resultBytes(mlir::Operation *op, unsigned i) const;

private:
  struct Slot {
    std::vector<Kernel> kernels; // of a slot that is not pointwise
    bool pointwise = false;
    llvm::SetVector<mlir::Operation *> members;
    llvm::MapVector<mlir::Value, double> reads; // from outside: bytes
    double extraBytes = 0;                      // masks of dropout
    int mergedInto = -1;
  };
  int resolve(int slot) const;
  int slotOf(mlir::Value value) const;
  bool usedOutside(mlir::Value value, int slot, int orSlot, mlir::Operation *orOp) const;
  void addPointwise(mlir::Operation *op);
  Kernel pointwiseKernel(int slot) const;
  void addOwn(mlir::Operation *op, std::vector<Kernel> kernels);
  std::vector<Kernel> kernelsOf(mlir::Operation *op) const;
  std::vector<Kernel> attention(mlir::Operation *op) const;
  Kernel kernel(mlir::Operation *op, const char *what, KernelClass kernelClass, double bytes) const;
  Kernel product(mlir::Operation *op, const char *what, double m, double n, double k, double batch) const;
  Kernel windowProduct(mlir::Operation *op, double bytes) const;

  KernelTypes types;
  LocalShape localShape;
  CutsOf cutsOf;
  llvm::DenseSet<mlir::Value> madeAgain;
  llvm::DenseMap<mlir::Operation *, RunAgain> runAgain;
  std::vector<Slot> slots;
  size_t passBegin = 0;
  llvm::DenseMap<mlir::Operation *, int> slotOfOp;
};

} // namespace kerf
