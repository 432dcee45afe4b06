// SPDX-License-Identifier: Apache-2.0
// Calls of softmax, its gradient, and the logarithm of a sum of exponentials: one operator, or parts in float32.
#include "Calls.h"
#include "Prices.h"

namespace kerf::runtime::ascend {

namespace {
/// The exponentials of a tensor less their maxima over a dimension.
struct Exponentials {
  View values, maxima, sums; // the latter two have size 1 in the dimension
};

View repeated(const View &view, const Shape &sizes) {
  std::vector<int64_t> map;
  for (size_t d = 0; d < sizes.size(); ++d)
    map.push_back(int64_t(d));
  return broadcast(view, sizes, map);
}

Exponentials exponentialsOf(Builder &b, const View &given, int64_t dimension) {
  b.refuseDoubles();
  View x = given;
  if (x.dtype != DType::F32) {
    x = b.temporary(DType::F32, given.sizes);
    b.cast(given, x);
  }
  Shape rest = x.sizes;
  rest[size_t(dimension)] = 1;
  Exponentials made{b.temporary(DType::F32, x.sizes), b.temporary(DType::F32, rest), b.temporary(DType::F32, rest)};
  b.call(op::Amax, x, std::vector<int64_t>{dimension}, true, made.maxima);
  b.subtract(x, repeated(made.maxima, x.sizes), made.values);
  b.call(op::Exp, made.values, made.values);
  b.call(op::ReduceSum, made.values, std::vector<int64_t>{dimension}, true, DType::F32, made.sums);
  return made;
}
} // namespace

void softmax(Builder &b, const View &x, int64_t dimension, const View &to) {
  choose(b, {{[&](Builder &b) { b.call(op::Softmax, x, dimension, to); }}, {[&](Builder &b) {
               Exponentials e = exponentialsOf(b, x, dimension);
               b.call(op::Div, e.values, repeated(e.sums, x.sizes), e.values);
               b.copy(e.values, to);
             }}});
}

void logSumExp(Builder &b, const View &x, int64_t dimension, const View &to) {
  choose(b,
         {{[&](Builder &b) { b.call(op::LogSumExp, x, std::vector<int64_t>{dimension}, true, to); }}, {[&](Builder &b) {
            Exponentials e = exponentialsOf(b, x, dimension);
            b.call(op::Log, e.sums, e.sums);
            b.add(e.sums, e.maxima, e.sums);
            b.copy(e.sums, to);
          }}});
}

void callSoftmax(Builder &b) { softmax(b, b.operand(0), b.integer("dimension"), b.result()); }

void callSoftmaxBackward(Builder &b) {
  auto fused = [](Builder &b) {
    b.call(op::SoftmaxBackward, b.operand(1), b.operand(0), b.integer("dimension"), b.result());
  };
  auto parts = [](Builder &b) { // y (dy - sum(dy y))
    b.refuseDoubles();
    const int64_t dimension = b.integer("dimension");
    View y = b.as(DType::F32, b.operand(0)), dy = b.as(DType::F32, b.operand(1));
    Shape rest = y.sizes;
    rest[size_t(dimension)] = 1;
    View products = b.temporary(DType::F32, y.sizes), sums = b.temporary(DType::F32, rest);
    b.call(op::Mul, y, dy, products);
    b.call(op::ReduceSum, products, std::vector<int64_t>{dimension}, true, DType::F32, sums);
    b.subtract(dy, repeated(sums, y.sizes), products);
    b.call(op::Mul, products, y, products);
    b.copy(products, b.result());
  };
  choose(b, {{fused}, {parts}});
}

} // namespace kerf::runtime::ascend
