// SPDX-License-Identifier: Apache-2.0
#include "ProductPlan.h"

#include <algorithm>
#include <numeric>

namespace kerf::runtime::cuda {

namespace {
constexpr double kLeastCopied = 1 << 20; // multiplications of a product that is worth a copy of an operand

/// Several dimensions as one loop: its size, and the elements from one round to the next.
struct Loop {
  int64_t size = 1, stride = 0;
};
std::optional<Loop> loopOf(const TensorView &view, const std::vector<int64_t> &dims) {
  std::vector<int64_t> strides = stridesOf(view.shape);
  Loop loop;
  for (int64_t d : dims) {
    int64_t size = view.shape[size_t(d)], stride = strides[size_t(d)];
    if (size == 1)
      continue;
    if (loop.size != 1 && loop.stride != size * stride)
      return std::nullopt;
    loop = {loop.size * size, stride};
  }
  return loop;
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
  int64_t free = sizeOf(view, dims.free), contracted = sizeOf(view, dims.contracted),
          batches = sizeOf(view, dims.batch);
  return {view.dtype, contracted, free, contracted, batches == 1 ? 0 : free * contracted, false};
}

/// Puts the contracted dimensions of both operands into the order in which `first` has them in memory, so that they
/// are one loop of that operand where this is possible. The order of a sum's terms is free.
void orderContracted(ProductDims &first, ProductDims &second) {
  std::vector<size_t> order(first.contracted.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return first.contracted[i] < first.contracted[j]; });
  ProductDims of[] = {first, second};
  for (size_t i = 0; i < order.size(); ++i) {
    first.contracted[i] = of[0].contracted[order[i]];
    second.contracted[i] = of[1].contracted[order[i]];
  }
}
} // namespace

int64_t sizeOf(const TensorView &view, const std::vector<int64_t> &dims) {
  int64_t size = 1;
  for (int64_t d : dims)
    size *= view.shape[size_t(d)];
  return size;
}

std::pair<ProductDims, ProductDims> dimsOf(const CallRequest &r) {
  ProductDims left{r.integers("lhs_batching"), {}, r.integers("lhs_contracting")},
      right{r.integers("rhs_batching"), {}, r.integers("rhs_contracting")};
  auto fill = [](ProductDims &dims, const TensorView &view) {
    auto has = [](const std::vector<int64_t> &some, int64_t d) {
      return std::find(some.begin(), some.end(), d) != some.end();
    };
    for (int64_t d = 0; d < int64_t(view.shape.size()); ++d)
      if (!has(dims.batch, d) && !has(dims.contracted, d))
        dims.free.push_back(d);
  };
  fill(left, r.operand(0));
  fill(right, r.operand(1));
  return {std::move(left), std::move(right)};
}

std::optional<ProductPlan> planOf(const CallRequest &r, bool tf32) {
  const TensorView &left = r.operand(0), &right = r.operand(1), &result = r.result();
  auto [leftDims, rightDims] = dimsOf(r);
  std::optional<ProductPlan> best;
  int64_t leastCopied = 0;
  for (bool leftDecides : {true, false}) {
    ProductPlan plan{{}, {leftDims, false}, {rightDims, false}};
    leftDecides ? orderContracted(plan.left.dims, plan.right.dims) : orderContracted(plan.right.dims, plan.left.dims);
    auto a = matrixOf(right, plan.right.dims), b = matrixOf(left, plan.left.dims);
    plan.right.copies = !a;
    plan.left.copies = !b;
    Gemm &gemm = plan.gemm;
    gemm.batches = sizeOf(left, leftDims.batch);
    gemm.m = sizeOf(right, rightDims.free);
    gemm.n = sizeOf(left, leftDims.free);
    gemm.k = sizeOf(left, leftDims.contracted);
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
