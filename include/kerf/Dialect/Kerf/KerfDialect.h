// SPDX-License-Identifier: Apache-2.0
// The kerf dialect: the one header that code which uses the dialect's ops includes.
#pragma once

#include "kerf/Dialect/Kerf/OpFacts.h"
#include "kerf/Sharding/Rule.h"
#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Work.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class PatternRewriter;
}

namespace kerf::ir {

/// The information that an op needs to lower itself to one rank's shards (ShardingRuleOpInterface::localize).
struct LocalizeContext {
  const Mesh &mesh;           // mesh of the program's ranks
  const OpSharding &sharding; // sharding of the op's operands and results
};

/// Creates an op with the name, attributes, regions and location of `op`, with other operands and result types, and
/// returns its results.
mlir::SmallVector<mlir::Value> cloneWithTypes(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                                              mlir::TypeRange resultTypes);
/// Returns the number of elements of the first result, which is the work of a pointwise op in FLOP; 0 for an op without
/// a tensor result.
double resultElements(mlir::Operation *op);
/// Returns the sharding rule of an elementwise op (elementwiseRule) for the shape of the op's first result. The op is
/// jointly linear in the operands of each of the `linearOperandSets`.
Rule elementwise(mlir::Operation *op, const std::vector<std::vector<int>> &linearOperandSets);

/// Returns the shape of a tensor type, or of the tensor that a pending type promises.
Shape shapeOf(mlir::Type type);
/// Returns the shape of a tensor, or of the tensor that a pending value promises.
Shape shapeOf(mlir::Value value);
/// Returns the number of elements of a tensor of this shape.
double elementsIn(const Shape &shape);
/// Returns the type of `value`, which is a tensor.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Returns whether `value` is a tensor of floating-point numbers.
bool isFloat(mlir::Value value);
/// Returns whether `elementType` is one of the 16-bit floating-point types bf16 and f16.
bool isHalf(mlir::Type elementType);
/// Returns whether `elementType` is one of the 8-bit floating-point types f8E4M3FN and f8E5M2.
bool isFloat8(mlir::Type elementType);
/// Returns the bytes of one element of a tensor type or pending tensor type: at least 1, also for i1.
int64_t bytesPerElement(mlir::Type type);
/// Returns the class of the kernel that runs the op; KernelClass::Nothing for an op without WorkOpInterface.
KernelClass kernelClassOf(mlir::Operation *op);
/// Corrects `work.bytes` of an op that picks elements of its first operand (a gather, a slice): the kernel reads only
/// as many bytes of that operand as it writes. On entry `work.bytes` counts all operands and results in full.
/// `operands` and `results` are the local shapes.
void countPickedBytesOnly(mlir::Operation *op, mlir::ArrayRef<Shape> operands, mlir::ArrayRef<Shape> results,
                          Work &work);
/// Returns whether an op that sums elements of type `from` may give its sums in type `to`: the same type, f32 for
/// sums of 16-bit elements, or f32 and a 16-bit type for sums of products of 8-bit elements.
bool mayAccumulateIn(mlir::Type from, mlir::Type to);

/// Returns the user's node that a location names, which is the name of the innermost NameLoc
/// ("transformer.h.0.attn.c_attn/node_addmm"), or "" where the location has no name.
std::string nodeName(mlir::Location location);
/// Returns the rule of ring attention, made from attention's own `rule`: keys and values are sharded along the sequence
/// like queries, because they are sent around the ring of ranks. The columns of a mask stay unsharded.
Rule ringRule(Rule rule);
/// Returns every op of the module's functions that has a sharding rule, with the rule. Ops in the bodies of other ops
/// (kerf.map) are left out, because they are sharded together with the op that contains them.
std::vector<std::pair<mlir::Operation *, Rule>> opsWithRules(mlir::ModuleOp module);
/// Returns the mesh that the module declares, or an empty mesh where it declares none.
Mesh meshOf(mlir::ModuleOp module);

} // namespace kerf::ir

#include "kerf/Dialect/Kerf/KerfDialect.h.inc"
#include "kerf/Dialect/Kerf/KerfEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Kerf/KerfAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "kerf/Dialect/Kerf/KerfInterfaces.h.inc"
#include "kerf/Dialect/Kerf/KerfTypes.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfOps.h.inc"
