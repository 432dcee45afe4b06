// SPDX-License-Identifier: Apache-2.0
// The kerf dialect: everything that a user of its ops includes.
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

/// What `localize` may ask: the mesh, the op's shardings, and its place among them.
struct LocalizeContext {
  const Mesh &mesh;
  const OpSharding &sharding;
};

/// The same op (name, attributes, location) on other operands with other result types.
mlir::SmallVector<mlir::Value> cloneWithTypes(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                                              mlir::TypeRange resultTypes);
/// Elements of the first result: the work of a pointwise op.
double resultElements(mlir::Operation *op);
/// elementwiseRule for the op's shape.
Rule elementwise(mlir::Operation *op, const std::vector<std::vector<int>> &linearOperandSets);

Shape shapeOf(mlir::Type type);
Shape shapeOf(mlir::Value value);
/// Returns the number of elements of a tensor of this shape.
double elementsIn(const Shape &shape);
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Whether `value` is a tensor of floating-point numbers.
bool isFloat(mlir::Value value);
/// bf16 or f16.
bool isHalf(mlir::Type elementType);
/// Bytes of an element of a tensor, at least 1; of a pending one too.
int64_t bytesPerElement(mlir::Type type);
/// The class of kernel that runs the op; Nothing for an op without a work.
KernelClass kernelClassOf(mlir::Operation *op);
/// Fits `work`, whose bytes are those of all operands and results, to an op that picks elements of its first operand:
/// it reads no more of that than it writes.
void readsWhatItWrites(mlir::Operation *op, mlir::ArrayRef<Shape> operands, mlir::ArrayRef<Shape> results, Work &work);
/// Whether an op that sums elements of `from` may give its sums as `to`: in the same type, or of 16-bit ones in f32.
bool mayAccumulateIn(mlir::Type from, mlir::Type to);

/// The user's node of an op: the name of its innermost NameLoc ("transformer.h.0.attn.c_attn/node_addmm"), or "".
std::string nodeName(mlir::Location location);
/// Attention's rule where keys and values are cut as queries are and pass round a ring of ranks. A mask's columns stay
/// whole.
Rule ringRule(Rule rule);
/// The ops of the module's functions that have a sharding rule, with it. Ops in bodies of other ops are not among them:
/// those are sharded with the op that they belong to.
std::vector<std::pair<mlir::Operation *, Rule>> opsWithRules(mlir::ModuleOp module);
/// The module's mesh, or an empty one.
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
