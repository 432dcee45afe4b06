// SPDX-License-Identifier: Apache-2.0
// Calls of matrix products. Operands are views with the dimensions batch, free, contracted: transposes are strides, and
// only operands whose dimensions cannot be merged are copied.
#include "Calls.h"

#include <algorithm>
#include <numeric>

namespace kerf::runtime::ascend {

namespace {
constexpr size_t kMostBatchDims = 4; // the operator takes up to 6 dimensions

/// The dimensions of one operand, by their role, in the order in which the other operand has them.
struct ProductDims {
  std::vector<int64_t> batch, free, contracted;
};

ProductDims dimsOf(const View &view, std::vector<int64_t> batch, std::vector<int64_t> contracted) {
  ProductDims dims{std::move(batch), {}, std::move(contracted)};
  auto has = [](const std::vector<int64_t> &some, int64_t d) {
    return std::find(some.begin(), some.end(), d) != some.end();
  };
  for (int64_t d = 0; d < int64_t(view.sizes.size()); ++d)
    if (!has(dims.batch, d) && !has(dims.contracted, d))
      dims.free.push_back(d);
  return dims;
}

/// Several dimensions as one: its size, and the elements from one index to the next.
struct Loop {
  int64_t size = 1, stride = 1;
};
std::optional<Loop> loopOf(const View &view, const std::vector<int64_t> &dims) {
  Loop loop;
  for (int64_t d : dims) {
    int64_t size = view.sizes[size_t(d)], stride = view.strides[size_t(d)];
    if (size == 1)
      continue;
    if (loop.size != 1 && loop.stride != size * stride)
      return std::nullopt;
    loop = {loop.size * size, stride};
  }
  return loop;
}

/// Returns the operand with the dimensions batch, free and contracted, where the last two are one dimension each.
std::optional<View> mergedView(const View &view, const ProductDims &dims) {
  auto free = loopOf(view, dims.free), contracted = loopOf(view, dims.contracted);
  if (!free || !contracted || dims.batch.size() > kMostBatchDims)
    return std::nullopt;
  View made = permuted(view, dims.batch);
  made.sizes.resize(dims.batch.size());
  made.strides.resize(dims.batch.size());
  for (const Loop &loop : {*free, *contracted}) {
    made.sizes.push_back(loop.size);
    made.strides.push_back(loop.stride);
  }
  return made;
}

/// Returns a copy in scratch memory, with one dimension for each role.
View copyOf(Builder &b, const View &view, const ProductDims &dims) {
  std::vector<int64_t> order;
  for (const auto *group : {&dims.batch, &dims.free, &dims.contracted})
    order.insert(order.end(), group->begin(), group->end());
  View from = permuted(view, order), to = b.temporary(view.dtype, from.sizes);
  b.copy(from, to);
  return to;
}

View swapped(View view) {
  std::swap(view.sizes[view.sizes.size() - 2], view.sizes.back());
  std::swap(view.strides[view.strides.size() - 2], view.strides.back());
  return view;
}

/// Puts the contracted dimensions of both operands into the order in which `first` has them in memory, so that they are
/// one dimension of that operand where this is possible. The order of a sum's terms is free.
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

/// A product with views of both operands; without one where an operand must be copied.
struct Plan {
  ProductDims left, right;
  std::optional<View> leftView, rightView;
  int64_t copied(const View &left, const View &right) const {
    return (leftView ? 0 : left.bytes()) + (rightView ? 0 : right.bytes());
  }
};
Plan planOf(const View &left, const View &right, ProductDims leftDims, ProductDims rightDims) {
  Plan best;
  for (bool leftDecides : {true, false}) {
    leftDecides ? orderContracted(leftDims, rightDims) : orderContracted(rightDims, leftDims);
    Plan plan{leftDims, rightDims, mergedView(left, leftDims), mergedView(right, rightDims)};
    if (leftDecides || plan.copied(left, right) < best.copied(left, right))
      best = std::move(plan);
  }
  return best;
}
} // namespace

void multiply(Builder &b, const View &left, const View &right, const View &to) {
  // The first 910 multiplies 16-bit factors only, so that the operator has to round float32 ones.
  constexpr int8_t kKeepsType = 0, kMayRound = 1;
  b.call(op::Matmul, left, right, to, b.target.generation == Generation::First ? kMayRound : kKeepsType);
}

void callDotGeneral(Builder &b) {
  View left = b.operand(0), right = b.operand(1), result = b.result();
  if (left.dtype != result.dtype || right.dtype != result.dtype) {
    left = b.as(result.dtype, left);
    right = b.as(result.dtype, right);
  }
  if (result.elements() == 0)
    return;
  bool accumulates = b.operands() == 3;
  Plan plan = planOf(left, right, dimsOf(left, b.integers("lhs_batching"), b.integers("lhs_contracting")),
                     dimsOf(right, b.integers("rhs_batching"), b.integers("rhs_contracting")));
  auto sizeOf = [](const View &view, const std::vector<int64_t> &dims) {
    int64_t size = 1;
    for (int64_t d : dims)
      size *= view.sizes[size_t(d)];
    return size;
  };
  Shape batch;
  for (int64_t d : plan.left.batch)
    batch.push_back(left.sizes[size_t(d)]);
  if (batch.size() > kMostBatchDims)
    batch = {sizeOf(left, plan.left.batch)};
  int64_t m = sizeOf(left, plan.left.free), n = sizeOf(right, plan.right.free), k = sizeOf(left, plan.left.contracted);
  if (k == 0)
    return accumulates ? b.copy(b.operand(2), result) : b.fill(result, 0);
  auto shaped = [&](const View &dense, int64_t rows, int64_t columns) {
    Shape sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    return reshaped(dense, sizes);
  };
  View a = plan.leftView ? *plan.leftView : shaped(copyOf(b, left, plan.left), m, k);
  View c = plan.rightView ? *plan.rightView : shaped(copyOf(b, right, plan.right), n, k);
  View to = shaped(accumulates ? b.temporary(result.dtype, result.sizes) : result, m, n);
  multiply(b, a, swapped(c), to);
  if (accumulates)
    b.add(b.operand(2), reshaped(to, result.sizes), result);
}

} // namespace kerf::runtime::ascend
