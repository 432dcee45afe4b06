// SPDX-License-Identifier: Apache-2.0
// Grouping of the ops of a pass (forward or backward) into the kernels that a framework launches for them: a chain of
// pointwise ops is one kernel, a bias is part of the kernel of its product, and a view needs no kernel. Only the
// conversion of IR to ModelWork includes this file (ModelWork.cpp).
#pragma once

#include "LinearLayers.h"
#include "kerf/CostModel/StepWork.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <functional>

namespace kerf {

/// The floating-point types in which kernels compute, and the implementation of attention.
struct KernelTypes {
  std::string product = "f32"; // type of matrix products
  std::string other = "f32";   // type of all other kernels
  double bytes = 4;            // bytes of one element of a floating-point tensor
  bool fusedAttention = true;  // whether attention is one kernel, rather than products, softmax and dropout
  /// Whether GELU or its gradient is part of the kernel of the product before it, and the gradient of a bias part of
  /// the product for the weight's gradient.
  bool joinsProducts = false;
  bool fusesReductions = false; // whether a reduction is part of the pointwise kernel that computes its operand
  bool fusedLoss = false;       // see WorkOptions::fusedLoss
  double lossBytes = 0;         // see WorkOptions::lossBytes
  const EightBitProducts *eightBit = nullptr; // the products with 8-bit factors; null: there are none

  /// Returns the recomputation modes that compute the core of attention again.
  RecomputeModes coreModes() const { return fusedAttention ? RecomputeModes::Attention : RecomputeModes::Scores; }
  /// Returns whether the op is a product with 8-bit factors.
  bool hasEightBitFactors(mlir::Operation *op) const { return eightBit && eightBit->products.contains(op); }
};

/// Bytes of one element of an 8-bit factor.
inline constexpr double kEightBitBytes = 1;

/// Returns the bytes of one element of `value`: those of `types` for floating-point tensors, but at least 4 (f32) for
/// the statistics of norms and for losses.
double elementBytes(mlir::Value value, const KernelTypes &types);

/// A function that returns the shape of one rank's shard of operand or result `index` of an op.
using LocalShape = std::function<Shape(mlir::Operation *op, bool isResult, unsigned index)>;
/// A function that returns, as the text of KernelWork::cuts, which factors of an op the mesh axes shard.
using CutsOf = std::function<std::string(mlir::Operation *op)>;

/// A builder that collects the ops of one pass after the other and writes each pass's kernels to a PassWork. The
/// kernels of earlier passes are remembered, so that a value that a later pass reads counts as stored.
class KernelBuilder {
public:
  KernelBuilder(const KernelTypes &types, LocalShape localShape, CutsOf cutsOf)
      : types(types), localShape(std::move(localShape)), cutsOf(std::move(cutsOf)) {}

  /// Sets the values that the forward kernels do not store because kernels of the backward pass recompute them,
  /// together with the arguments of the backward function that stand for these values.
  void setRecomputedValues(const llvm::DenseSet<mlir::Value> &values) { recomputedValues = values; }
  /// Sets the recomputation modes under which each op runs again, where a plan decides about single ops; empty where it
  /// does not. `pointwise` are the ops that pointwise recomputation runs again.
  void setRecomputedBy(const llvm::DenseMap<mlir::Operation *, RecomputeModes> &ops,
                       const llvm::DenseSet<mlir::Operation *> &pointwise) {
    recomputedByOf = ops;
    pointwiseOps = pointwise;
  }
  /// Returns the recomputation modes under which an op runs again.
  RecomputeModes modesOf(mlir::Operation *op) const;
  /// Begins a new pass. Ops added from here on are not fused with ops added before.
  void beginPass() { passBegin = slots.size(); }
  /// Adds an op to the current pass, fused with earlier ops of the pass where possible.
  void add(mlir::Operation *op);
  /// Adds the backward op of a norm. Its kernel for the activation's gradient becomes part of the current pass; its
  /// kernel for the weights' gradients is appended to `weights`.
  void addNormBackward(mlir::Operation *op, PassWork &weights);
  /// Ends the current pass and appends its kernels to `pass`.
  void endPass(PassWork &pass);

  /// Returns whether the op has no kernel and costs nothing: its result is a view, is computed by the kernels that read
  /// it, or is written by the product before the op.
  static bool isVirtual(mlir::Operation *op);
  /// Returns whether the value is written to memory, because an op outside of the kernel that computes it reads it.
  bool isStored(mlir::Value value) const;
  /// Returns the bytes of operand `i` of an op on one rank.
  double operandBytes(mlir::Operation *op, unsigned i) const;
  /// Returns the bytes of result `i` of an op on one rank.
  double resultBytes(mlir::Operation *op, unsigned i) const;

private:
  /// A kernel under construction, to which pointwise ops may still be added; or the finished kernels of one op that is
  /// not pointwise.
  struct Slot {
    std::vector<KernelWork> kernels;            // empty while `pointwise`
    bool pointwise = false;                     // whether this is a fused kernel of pointwise ops
    llvm::SetVector<mlir::Operation *> members; // the ops of the kernel
    llvm::MapVector<mlir::Value, double> reads; // bytes of each value that the kernel reads from memory
    double extraBytes = 0;                      // bytes of dropout masks that the kernel writes
    bool reduces = false;                       // whether the last of `members` are reductions of what it computes
    int mergedInto = -1;                        // the slot into which this one was fused, or -1
  };
  int resolve(int slot) const;
  int slotOf(mlir::Value value) const;
  bool usedOutside(mlir::Value value, int slot, int orSlot, mlir::Operation *orOp) const;
  void addPointwise(mlir::Operation *op);
  bool joinsPointwise(ir::ReduceOp reduce);
  bool needsReduction(mlir::Value value, int slot) const;
  KernelWork pointwiseKernel(int slot) const;
  void addUnfused(mlir::Operation *op, std::vector<KernelWork> kernels);
  void addRecomputation(const Slot &slot, llvm::MutableArrayRef<KernelWork> kernels, PassWork &pass) const;
  bool joinsProduct(mlir::Operation *op);
  std::vector<KernelWork> factorKernels(ir::DotGeneralOp product);
  std::vector<KernelWork> kernelsOf(mlir::Operation *op) const;
  std::vector<KernelWork> attention(mlir::Operation *op) const;
  KernelWork kernel(mlir::Operation *op, const char *what, KernelClass kernelClass, double bytes) const;
  KernelWork product(mlir::Operation *op, const char *what, double m, double n, double k, double batch) const;
  KernelWork windowProduct(mlir::Operation *op, double bytes) const;

  KernelTypes types;
  LocalShape localShape;
  CutsOf cutsOf;
  llvm::DenseSet<mlir::Value> recomputedValues;
  llvm::DenseSet<mlir::Value> quantized; // values of which an earlier product has made an 8-bit copy
  llvm::DenseMap<mlir::Operation *, RecomputeModes> recomputedByOf;
  llvm::DenseSet<mlir::Operation *> pointwiseOps;
  std::vector<Slot> slots;
  size_t passBegin = 0;
  llvm::DenseMap<mlir::Operation *, int> slotOfOp;
};

} // namespace kerf
