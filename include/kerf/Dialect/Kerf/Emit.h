// SPDX-License-Identifier: Apache-2.0
// Writes ops as formulas: result types follow from the operands. For gradients, decompositions and recognition, whose
// code should read like the mathematics it carries out.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf::ir {

/// Every op is made at `loc` and at the builder's insertion point.
struct Emitter {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  mlir::Value add(mlir::Value x, mlir::Value y) { return AddOp::create(builder, loc, x.getType(), x, y); }
  mlir::Value subtract(mlir::Value x, mlir::Value y) { return SubtractOp::create(builder, loc, x.getType(), x, y); }
  mlir::Value multiply(mlir::Value x, mlir::Value y) { return MultiplyOp::create(builder, loc, x.getType(), x, y); }
  mlir::Value divide(mlir::Value x, mlir::Value y) { return DivideOp::create(builder, loc, x.getType(), x, y); }
  mlir::Value maximum(mlir::Value x, mlir::Value y) { return MaximumOp::create(builder, loc, x.getType(), x, y); }
  mlir::Value exponential(mlir::Value x) { return ExponentialOp::create(builder, loc, x.getType(), x); }
  mlir::Value log(mlir::Value x) { return LogOp::create(builder, loc, x.getType(), x); }
  mlir::Value rsqrt(mlir::Value x) { return RsqrtOp::create(builder, loc, x.getType(), x); }
  mlir::Value tanh(mlir::Value x) { return TanhOp::create(builder, loc, x.getType(), x); }
  mlir::Value erf(mlir::Value x) { return ErfOp::create(builder, loc, x.getType(), x); }
  mlir::Value select(mlir::Value predicate, mlir::Value x, mlir::Value y) {
    return SelectOp::create(builder, loc, x.getType(), predicate, x, y);
  }

  /// A tensor of `like`'s type that holds `value` everywhere: a scalar constant and its broadcast.
  mlir::Value splat(double value, mlir::Value like);
  mlir::Value splat(int64_t value, mlir::Value like);
  /// Dimension d of `x` becomes dimension `dims[d]` of the result.
  mlir::Value broadcast(mlir::Value x, mlir::ArrayRef<int64_t> shape, mlir::ArrayRef<int64_t> dims);
  /// `x` lacks dimension `dim` of `like` (same others): copies along it.
  mlir::Value broadcastAlong(mlir::Value x, mlir::Value like, int64_t dim);
  /// `x` is the vector along the last dimension of `like`.
  mlir::Value broadcastLast(mlir::Value x, mlir::Value like);
  /// No op where `dims` is empty.
  mlir::Value reduce(mlir::Value x, ReduceKindIR kind, mlir::ArrayRef<int64_t> dims);
  mlir::Value sum(mlir::Value x, mlir::ArrayRef<int64_t> dims) { return reduce(x, ReduceKindIR::sum, dims); }
  /// No op where the permutation is the identity.
  mlir::Value transpose(mlir::Value x, mlir::ArrayRef<int64_t> permutation);
  /// No op where the shape is the operand's.
  mlir::Value reshape(mlir::Value x, mlir::ArrayRef<int64_t> shape);
  mlir::Value dot(mlir::Value x, mlir::Value y, mlir::ArrayRef<int64_t> xBatching, mlir::ArrayRef<int64_t> yBatching,
                  mlir::ArrayRef<int64_t> xContracting, mlir::ArrayRef<int64_t> yContracting);
  mlir::Value iota(mlir::ArrayRef<int64_t> shape, mlir::Type elementType, int64_t dim);
  mlir::Value compare(mlir::Value x, mlir::Value y, Comparison direction);
  mlir::Value convert(mlir::Value x, mlir::Type elementType);
};

/// The shape without dimension `dim`.
Shape without(mlir::ArrayRef<int64_t> shape, int64_t dim);
/// 0, 1, ..., count - 1.
Shape firstDims(int64_t count);

} // namespace kerf::ir
