// SPDX-License-Identifier: Apache-2.0
// Calls of matrix products. Operands are views with the dimensions batch, free, contracted: transposes are strides, and
// only operands whose dimensions cannot be merged are copied.
#include "Calls.h"
#include "Prices.h"

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

/// The operand whose order in memory the contracted dimensions get, and the operator that adds what is there already.
enum class Order { Left, Right };
enum class Sum { Separate, InProduct };

/// The first 910 multiplies 16-bit factors only, so that the operator has to round float32 ones.
int8_t mathOf(const Builder &b) {
  constexpr int8_t kKeeps = 0, kMayRound = 1;
  return b.target.generation == Generation::First ? kMayRound : kKeeps;
}

void addProduct(Builder &b, Order order, Sum sum) {
  View left = b.as(b.result().dtype, b.operand(0)), right = b.as(b.result().dtype, b.operand(1)), result = b.result();
  auto [leftDims, rightDims] = productDims(b);
  order == Order::Left ? orderContracted(leftDims, rightDims) : orderContracted(rightDims, leftDims);
  auto leftView = mergedView(left, leftDims), rightView = mergedView(right, rightDims);
  Shape batch;
  for (int64_t d : leftDims.batch)
    batch.push_back(left.sizes[size_t(d)]);
  if (batch.size() > kMostBatchDims || (sum == Sum::InProduct && batch.size() > 1 && !leftView && !rightView))
    batch = {sizeOf(left.sizes, leftDims.batch)};
  int64_t m = sizeOf(left.sizes, leftDims.free), n = sizeOf(right.sizes, rightDims.free),
          k = sizeOf(left.sizes, leftDims.contracted);
  auto shaped = [&](const View &dense, int64_t rows, int64_t columns) {
    Shape sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    return reshaped(dense, sizes);
  };
  View a = leftView ? *leftView : shaped(copyOf(b, left, leftDims), m, k);
  View c = swapped(rightView ? *rightView : shaped(copyOf(b, right, rightDims), n, k));
  View to = shaped(result, m, n);
  if (b.operands() < 3)
    return multiply(b, a, c, to);
  View before = b.operand(2);
  if (sum == Sum::Separate) {
    View product = b.temporary(result.dtype, result.sizes);
    multiply(b, a, c, shaped(product, m, n));
    return b.add(before, product, result);
  }
  if (batch.size() > 1)
    return b.decline(); // no operator adds a product of several batch dimensions
  const ScalarValue one = Builder::one(result.dtype);
  b.call(batch.empty() ? op::Addmm : op::Baddbmm, shaped(before, m, n), a, c, one, one, to, mathOf(b));
}
} // namespace

void multiply(Builder &b, const View &left, const View &right, const View &to) {
  b.call(op::Matmul, left, right, to, mathOf(b));
}

void callDotGeneral(Builder &b) {
  if (b.result().elements() == 0)
    return;
  if (b.operand(0).elements() == 0) // sums of no products
    return b.operands() == 3 ? b.copy(b.operand(2), b.result()) : b.fill(b.result(), 0);
  auto product = [](Order order, Sum sum) { return Composition{[=](Builder &b) { addProduct(b, order, sum); }}; };
  if (b.operands() < 3)
    return choose(b, {product(Order::Left, Sum::Separate), product(Order::Right, Sum::Separate)});
  choose(b, {product(Order::Left, Sum::InProduct), product(Order::Right, Sum::InProduct),
             product(Order::Left, Sum::Separate), product(Order::Right, Sum::Separate)});
}

} // namespace kerf::runtime::ascend
