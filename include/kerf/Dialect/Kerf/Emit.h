// SPDX-License-Identifier: Apache-2.0
// An emitter of ops that infers each result type from the operands, so that code that creates ops (gradients,
// decompositions, recognition of composites) reads like the formula that it implements.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf::ir {

/// A pair of an op builder and a location. Each member function creates one op (or a few) at `loc`, at the builder's
/// insertion point, and returns the op's result. Operands of an elementwise op have equal types.
struct Emitter {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// Returns x + y, element by element.
  mlir::Value add(mlir::Value x, mlir::Value y) { return AddOp::create(builder, loc, x.getType(), x, y); }
  /// Returns x - y, element by element.
  mlir::Value subtract(mlir::Value x, mlir::Value y) { return SubtractOp::create(builder, loc, x.getType(), x, y); }
  /// Returns x * y, element by element.
  mlir::Value multiply(mlir::Value x, mlir::Value y) { return MultiplyOp::create(builder, loc, x.getType(), x, y); }
  /// Returns x / y, element by element.
  mlir::Value divide(mlir::Value x, mlir::Value y) { return DivideOp::create(builder, loc, x.getType(), x, y); }
  /// Returns max(x, y), element by element.
  mlir::Value maximum(mlir::Value x, mlir::Value y) { return MaximumOp::create(builder, loc, x.getType(), x, y); }
  /// Returns exp(x), element by element.
  mlir::Value exponential(mlir::Value x) { return ExponentialOp::create(builder, loc, x.getType(), x); }
  /// Returns the natural logarithm of each element.
  mlir::Value log(mlir::Value x) { return LogOp::create(builder, loc, x.getType(), x); }
  /// Returns 1 / sqrt(x), element by element.
  mlir::Value rsqrt(mlir::Value x) { return RsqrtOp::create(builder, loc, x.getType(), x); }
  /// Returns tanh(x), element by element.
  mlir::Value tanh(mlir::Value x) { return TanhOp::create(builder, loc, x.getType(), x); }
  /// Returns the error function of each element.
  mlir::Value erf(mlir::Value x) { return ErfOp::create(builder, loc, x.getType(), x); }
  /// Returns x where `predicate` (i1) is true and y elsewhere, element by element.
  mlir::Value select(mlir::Value predicate, mlir::Value x, mlir::Value y) {
    return SelectOp::create(builder, loc, x.getType(), predicate, x, y);
  }

  /// Returns a tensor of `like`'s floating-point type in which every element is `value`: a scalar constant
  /// and its broadcast.
  mlir::Value splat(double value, mlir::Value like);
  /// Returns a tensor of `like`'s integer type in which every element is `value`: a scalar constant and its broadcast.
  mlir::Value splat(int64_t value, mlir::Value like);
  /// Returns `x` broadcast to `shape`, where dimension d of `x` becomes dimension `dims[d]` of the result.
  mlir::Value broadcast(mlir::Value x, mlir::ArrayRef<int64_t> shape, mlir::ArrayRef<int64_t> dims);
  /// Returns `x` broadcast to the shape of `like`. `x` has the dimensions of `like` without dimension `dim`.
  mlir::Value broadcastAlong(mlir::Value x, mlir::Value like, int64_t dim);
  /// Returns `x`, a vector of the size of the last dimension of `like`, broadcast to the shape of `like`.
  mlir::Value broadcastLast(mlir::Value x, mlir::Value like);
  /// Returns `x` without the dimensions `dims` (strictly increasing), which are combined by `kind`. Returns `x` itself
  /// where `dims` is empty.
  mlir::Value reduce(mlir::Value x, ReduceKindIR kind, mlir::ArrayRef<int64_t> dims);
  /// Returns the sums of `x` over the dimensions `dims` (strictly increasing).
  mlir::Value sum(mlir::Value x, mlir::ArrayRef<int64_t> dims) { return reduce(x, ReduceKindIR::sum, dims); }
  /// Returns `x` with its dimensions permuted: dimension d of the result is dimension `permutation[d]` of `x`. Returns
  /// `x` itself where the permutation is the identity.
  mlir::Value transpose(mlir::Value x, mlir::ArrayRef<int64_t> permutation);
  /// Returns the elements of `x` under `shape`, or `x` itself where it has this shape.
  mlir::Value reshape(mlir::Value x, mlir::ArrayRef<int64_t> shape);
  /// Returns the product (dot_general) of `x` and `y` over the given batching and contracting dimensions. The result
  /// has the batching dimensions, then the remaining ones of `x`, then the remaining ones of `y`. Its elements are of
  /// type `element`, or of the type of `x` where `element` is null. `magnitudes` are those of 8-bit factors.
  mlir::Value dot(mlir::Value x, mlir::Value y, mlir::ArrayRef<int64_t> xBatching, mlir::ArrayRef<int64_t> yBatching,
                  mlir::ArrayRef<int64_t> xContracting, mlir::ArrayRef<int64_t> yContracting, mlir::Type element = {},
                  mlir::ValueRange magnitudes = {});
  /// Returns a tensor of `shape` in which each element is its index along dimension `dim`.
  mlir::Value iota(mlir::ArrayRef<int64_t> shape, mlir::Type elementType, int64_t dim);
  /// Returns an i1 tensor that is true where x[i] stands in the relation `direction` to y[i].
  mlir::Value compare(mlir::Value x, mlir::Value y, Comparison direction);
  /// Returns `x` converted to `elementType`, or `x` itself where it has this element type.
  mlir::Value convert(mlir::Value x, mlir::Type elementType);
};

/// Returns `shape` without dimension `dim`.
Shape withoutDim(mlir::ArrayRef<int64_t> shape, int64_t dim);
/// Returns the list of dimensions 0, 1, ..., count - 1.
Shape firstDims(int64_t count);

} // namespace kerf::ir
