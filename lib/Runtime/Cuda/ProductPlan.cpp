// SPDX-License-Identifier: Apache-2.0
#include "ProductPlan.h"

#include <algorithm>
#include <numeric>

namespace kerf::runtime::cuda {

namespace {
constexpr double kLeastCopied = 1 << 20; // multiplications of a product that is worth a copy of an operand

/// Returns some dimensions of a dense tensor as one loop.
std::optional<Loop> loopOf(const TensorView &view, const std::vector<int64_t> &dims) {
  return kerf::runtime::loopOf(view.shape, rowMajorStrides(view.shape), dims);
}

/// Returns the matrices of an operand, whose columns in memory are its free dimensions where `transposed` is false:
/// the contracted index is the row. Returns nothing if the library cannot read the operand as it lies.
std::optional<GemmMatrix> matrixOf(const TensorView &view, const ProductDims &dims) {
  auto batch = loopOf(view, dims.batch), free = loopOf(view, dims.free), contracted = loopOf(view, dims.contracted);
  if (!batch || !free || !contracted)
    return std::nullopt;
  auto matrix = [&](const Loop &rows, const Loop &columns, bool freeIsRow) -> std::optional<GemmMatrix> {
    int64_t leading = columns.size == 1 ? rows.size : columns.stride;
    if ((rows.size > 1 && rows.stride != 1) || leading < rows.size)
      return std::nullopt;
    return GemmMatrix{view.dtype, rows.size, columns.size, leading, batch->size == 1 ? 0 : batch->stride, freeIsRow};
  };
  auto byContracted = matrix(*contracted, *free, false);
  if (isFloat8(view.dtype)) // the library multiplies 8-bit factors in this order only
    return byContracted;
  return byContracted ? byContracted : matrix(*free, *contracted, true);
}

/// Returns the matrices of the operand's dense copy.
GemmMatrix matrixOfCopy(const TensorView &view, const ProductDims &dims) {
  int64_t free = sizeOf(view.shape, dims.free), contracted = sizeOf(view.shape, dims.contracted),
          batches = sizeOf(view.shape, dims.batch);
  return {view.dtype, contracted, free, contracted, batches == 1 ? 0 : free * contracted, false};
}
} // namespace

std::optional<ProductPlan> planOf(const CallRequest &r, bool tf32) {
  const TensorView &left = r.operand(0), &right = r.operand(1), &result = r.result();
  auto [leftDims, rightDims] = productDims(r);
  std::optional<ProductPlan> best;
  int64_t leastCopied = 0;
  for (bool leftDecides : {true, false}) {
    ProductPlan plan{{}, {leftDims, false}, {rightDims, false}};
    leftDecides ? orderContracted(plan.left.dims, plan.right.dims) : orderContracted(plan.right.dims, plan.left.dims);
    auto a = matrixOf(right, plan.right.dims), b = matrixOf(left, plan.left.dims);
    plan.right.copies = !a;
    plan.left.copies = !b;
    Gemm &gemm = plan.gemm;
    gemm.batches = sizeOf(left.shape, leftDims.batch);
    gemm.m = sizeOf(right.shape, rightDims.free);
    gemm.n = sizeOf(left.shape, leftDims.free);
    gemm.k = sizeOf(left.shape, leftDims.contracted);
    gemm.a = a ? *a : matrixOfCopy(right, plan.right.dims);
    gemm.b = b ? *b : matrixOfCopy(left, plan.left.dims);
    // op(A) is m x k and op(B) is k x n. A matrix whose rows are the contracted index is k x m, or k x n.
    gemm.a.transposed = !gemm.a.transposed;
    gemm.d = {result.dtype, gemm.m, gemm.n, gemm.m, gemm.batches == 1 ? 0 : gemm.m * gemm.n, false};
    gemm.tf32 = tf32 && left.dtype == DType::F32;
    gemm.accumulates = r.operands() == 3;
    int64_t copied = (a ? 0 : right.bytes()) + (b ? 0 : left.bytes());
    if (!best || copied < leastCopied) {
      best = plan;
      leastCopied = copied;
    }
  }
  if (best->gemm.k == 0 || !isSupported(best->gemm) ||
      (leastCopied > 0 && multiplicationsOf(best->gemm) < kLeastCopied))
    return std::nullopt;
  return best;
}

} // namespace kerf::runtime::cuda
