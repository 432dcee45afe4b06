// SPDX-License-Identifier: Apache-2.0
// Traits by which ops state facts about themselves, in addition to MLIR's own traits and the interfaces of
// KerfInterfaces.td. A pass asks for a trait instead of naming ops, so that a new op is handled correctly by every pass
// once it has the right traits. MLIR's trait Elementwise has a further meaning here: the op may become part of a fused
// kernel, and reshapes may move across it.
#pragma once

#include "mlir/IR/OpDefinition.h"

namespace kerf::ir {

/// The rule by which kerf-mixed-precision chooses the floating-point types of an op's operands and results. An op
/// without a rule computes in f32.
enum class HalfRule {
  Widest,       // all operands are converted to one type: f32 if one of them must stay f32, else the 16-bit type
  Half,         // operands and the first result are 16-bit; sums inside of the kernel and the other results are f32
  TypeOfFirst,  // the first result has the first operand's type; other operands keep their type, other results are f32
  Rows,         // rows of an f32 table are looked up and then converted, so that the table's gradient is an f32 sum
  OperandsAsIs, // operands keep their type, results are f32
};
/// The trait of an op that has a HalfRule: In16Bits<HalfRule::Widest>::Impl and so on.
template <HalfRule rule> struct In16Bits {
  template <typename Op> class Impl : public mlir::OpTrait::TraitBase<Op, Impl> {};
};
/// Returns the rule by which mixed precision chooses the op's types, or nothing for an op that computes in f32.
std::optional<HalfRule> halfRuleOf(mlir::Operation *op);

/// The trait of an op whose result is the operand's value in another order, shape, element type or sharding.
template <typename Op> class SameValue : public mlir::OpTrait::TraitBase<Op, SameValue> {};
/// The trait of an op of whose result each element is an element of the first operand (gather, slice, broadcast).
template <typename Op> class PicksElements : public mlir::OpTrait::TraitBase<Op, PicksElements> {};
/// The trait of an op that an accelerator computes inside of the kernels that read its result, without a kernel of its
/// own (constant, iota, broadcast, reshape, slice).
template <typename Op> class FusesIntoUsers : public mlir::OpTrait::TraitBase<Op, FusesIntoUsers> {};
/// The trait of an op that normalizes each row along the last dimension of its first operand to a fixed variance or
/// mean square (layer_norm, rms_norm).
template <typename Op> class NormalizesRows : public mlir::OpTrait::TraitBase<Op, NormalizesRows> {};
/// The trait of a backward op that computes the gradients of an activation and of parameters in one kernel.
template <typename Op> class ComputesWeightGradients : public mlir::OpTrait::TraitBase<Op, ComputesWeightGradients> {};
/// The trait of an op that looks up rows of a parameter, or that sums into rows of such a parameter's gradient.
template <typename Op> class UsesTable : public mlir::OpTrait::TraitBase<Op, UsesTable> {};
/// The trait of an op whose integer operands are indices into another operand or into the result. Padding of such an
/// operand must hold valid indices.
template <typename Op> class TakesIndices : public mlir::OpTrait::TraitBase<Op, TakesIndices> {};
/// The trait of an elementwise op that needs many instructions for each element (exp, tanh). A fused kernel calls a
/// math routine for a block of elements instead of inlining the op.
template <typename Op> class ManyInstructions : public mlir::OpTrait::TraitBase<Op, ManyInstructions> {};
/// The trait of an op that reads the scores of classes from its first operand. The product that makes the scores stays
/// in 16 bits where others are in 8.
template <typename Op> class ReadsScores : public mlir::OpTrait::TraitBase<Op, ReadsScores> {};
/// The trait of an op that copies a tensor from device memory to host memory or back.
template <typename Op> class TransfersHostMemory : public mlir::OpTrait::TraitBase<Op, TransfersHostMemory> {};

/// Checks that the pending result of a collective has the operand's type, and reports an error where it does not.
mlir::LogicalResult verifyKeepsType(mlir::Operation *collective);
/// The trait of a collective whose pending result has the operand's type. The trait's verifier checks this.
template <typename Op> class KeepsType : public mlir::OpTrait::TraitBase<Op, KeepsType> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) { return verifyKeepsType(op); }
};

/// Returns whether recomputing the op's result is cheaper than saving it: the op has no kernel of its own
/// (FusesIntoUsers), and no operand has more elements than the result.
bool isCheaperToRecompute(mlir::Operation *op);

} // namespace kerf::ir
