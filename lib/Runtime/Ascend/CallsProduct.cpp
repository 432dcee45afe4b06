// SPDX-License-Identifier: Apache-2.0
// Calls of matrix products. Operands are views with the dimensions batch, free, contracted: transposes are strides, and
// only operands whose dimensions cannot be merged are copied.
#include "Calls.h"

namespace kerf::runtime::ascend {

namespace {
constexpr size_t kMostBatchDims = 4; // the operator takes up to 6 dimensions

/// Returns the operand with the dimensions batch, free and contracted, where the last two are one dimension each.
std::optional<View> mergedView(const View &view, const ProductDims &dims) {
  auto free = loopOf(view.sizes, view.strides, dims.free),
       contracted = loopOf(view.sizes, view.strides, dims.contracted);
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
  auto [leftDims, rightDims] = productDims(b);
  Plan plan = planOf(left, right, std::move(leftDims), std::move(rightDims));
  Shape batch;
  for (int64_t d : plan.left.batch)
    batch.push_back(left.sizes[size_t(d)]);
  if (batch.size() > kMostBatchDims)
    batch = {sizeOf(left.sizes, plan.left.batch)};
  int64_t m = sizeOf(left.sizes, plan.left.free), n = sizeOf(right.sizes, plan.right.free),
          k = sizeOf(left.sizes, plan.left.contracted);
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
