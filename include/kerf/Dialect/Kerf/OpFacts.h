// SPDX-License-Identifier: Apache-2.0
// Facts that ops carry as traits, beside MLIR's own (Elementwise: the op works on each element apart, so that it may be
// split by a reshape and be part of a fused kernel) and the interfaces of KerfInterfaces.td. A pass asks for a fact and
// names no op, so that a new op is treated as its facts say.
#pragma once

#include "mlir/IR/OpDefinition.h"

namespace kerf::ir {

/// The floating types that mixed precision gives to an operator (kerf-mixed-precision). An operator without a rule
/// computes in f32.
enum class HalfRule {
  Widest,    // all operands meet in one type: f32 where one of them keeps to f32, else the 16-bit type
  Half,      // operands and the first result have 16 bits, sums inside and the other results f32
  LikeFirst, // the first result has the first operand's type; other operands are read as they are, other results are
             // f32
  Rows,      // rows of an f32 table are picked, then converted: the table's gradient is an f32 sum
  AsItIs,    // operands are read as they are, results are f32
};
template <HalfRule rule> struct In16Bits {
  template <typename Op> class Impl : public mlir::OpTrait::TraitBase<Op, Impl> {};
};
/// Returns the op's rule, or nothing where it has none.
std::optional<HalfRule> halfRuleOf(mlir::Operation *op);

/// The result is the operand's value in another order, shape, element type or place on the mesh.
template <typename Op> class SameValue : public mlir::OpTrait::TraitBase<Op, SameValue> {};
/// Each element of the result is an element of the first operand.
template <typename Op> class PicksElements : public mlir::OpTrait::TraitBase<Op, PicksElements> {};
/// An accelerator makes the result where it is read, without a kernel of its own.
template <typename Op> class MadeWhereRead : public mlir::OpTrait::TraitBase<Op, MadeWhereRead> {};
/// The op brings each row along the last dimension of its first operand to one mean square or variance.
template <typename Op> class NormalizesRows : public mlir::OpTrait::TraitBase<Op, NormalizesRows> {};
/// The op is a backward form that makes the gradients of an operand and of parameters in one kernel.
template <typename Op> class MakesWeightGradients : public mlir::OpTrait::TraitBase<Op, MakesWeightGradients> {};
/// The op looks up rows of a parameter, or sums into its gradient.
template <typename Op> class UsesTable : public mlir::OpTrait::TraitBase<Op, UsesTable> {};
/// Integer operands are places in another operand or in the result: what lies in padding must be a valid one.
template <typename Op> class TakesIndices : public mlir::OpTrait::TraitBase<Op, TakesIndices> {};
/// An elementwise op that takes many instructions an element: a fused kernel calls a routine for a block of elements.
template <typename Op> class ManyInstructions : public mlir::OpTrait::TraitBase<Op, ManyInstructions> {};
/// The op copies a value to or from the host's memory.
template <typename Op> class CopiesByHost : public mlir::OpTrait::TraitBase<Op, CopiesByHost> {};

/// A collective whose pending result has the operand's type.
mlir::LogicalResult verifyKeepsType(mlir::Operation *collective);
template <typename Op> class KeepsType : public mlir::OpTrait::TraitBase<Op, KeepsType> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) { return verifyKeepsType(op); }
};

/// Whether it is cheaper to make the op's result again than to keep it: no arithmetic, and no more to read than to
/// write.
bool isMadeAgain(mlir::Operation *op);

} // namespace kerf::ir
