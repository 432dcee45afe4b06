// SPDX-License-Identifier: Apache-2.0
// Calls of softmax and of normalizations.
#include "Calls.h"

#include <algorithm>

namespace kerf::runtime::ascend {

namespace {
/// Returns a tensor as rows: all dimensions but the last are one.
View rowsOf(const View &view) {
  int64_t n = view.sizes.back();
  return reshaped(view, {product(view.sizes, 0, view.sizes.size() - 1), n});
}
/// Returns a tensor of one number for each row, as the operators take it: [rows, 1].
View columnOf(const View &view) { return reshaped(view, {view.elements(), 1}); }

/// A result of a type that the operator does not write: the operator writes a copy, which is converted afterwards.
struct Converted {
  Builder &b;
  View written, result;
  Converted(Builder &b, DType dtype, const View &result)
      : b(b), written(result.dtype == dtype ? result : b.temporary(dtype, result.sizes)), result(result) {}
  void finish() {
    if (written.dtype != result.dtype)
      b.cast(written, result);
  }
};
} // namespace

void callSoftmax(Builder &b) { b.call(op::Softmax, b.operand(0), b.integer("dimension"), b.result()); }

void callSoftmaxBackward(Builder &b) {
  b.call(op::SoftmaxBackward, b.operand(1), b.operand(0), b.integer("dimension"), b.result());
}

void callLayerNorm(Builder &b) {
  View x = rowsOf(b.operand(0)), y = rowsOf(b.result(0));
  View scale = b.as(x.dtype, b.operand(1)), bias = b.as(x.dtype, b.operand(2));
  Converted mean(b, DType::F32, columnOf(b.result(1))), rstd(b, DType::F32, columnOf(b.result(2)));
  b.call(op::LayerNorm, x, std::vector<int64_t>{x.sizes[1]}, scale, bias, b.number("epsilon"), y, mean.written,
         rstd.written);
  mean.finish();
  rstd.finish();
}

void callLayerNormBackward(Builder &b) {
  View x = rowsOf(b.operand(0)), dy = b.as(x.dtype, rowsOf(b.operand(4)));
  View scale = b.as(x.dtype, b.operand(1)), mean = b.as(DType::F32, columnOf(b.operand(2))),
       rstd = b.as(DType::F32, columnOf(b.operand(3)));
  Converted dx(b, x.dtype, rowsOf(b.result(0))), dScale(b, x.dtype, b.result(1)), dBias(b, x.dtype, b.result(2));
  if (x.elements() == 0) {
    b.fill(b.result(1), 0);
    return b.fill(b.result(2), 0);
  }
  View bias = b.temporary(x.dtype, scale.sizes); // the operator asks for the bias, whose values it does not use
  b.fill(bias, 0);
  b.call(op::LayerNormBackward, dy, x, std::vector<int64_t>{x.sizes[1]}, mean, rstd, scale, bias,
         std::vector<bool>{true, true, true}, dx.written, dScale.written, dBias.written);
  for (Converted *one : {&dx, &dScale, &dBias})
    one->finish();
}

void callRmsNorm(Builder &b) {
  View x = rowsOf(b.operand(0)), y = rowsOf(b.result(0));
  View scale = b.as(x.dtype, b.operand(1));
  Converted rstd(b, DType::F32, columnOf(b.result(1)));
  b.call(op::RmsNorm, x, scale, b.number("epsilon"), y, rstd.written);
  rstd.finish();
}

void callRmsNormBackward(Builder &b) {
  View x = rowsOf(b.operand(0)), dy = b.as(x.dtype, rowsOf(b.operand(3)));
  View scale = b.as(x.dtype, b.operand(1)), rstd = b.as(DType::F32, columnOf(b.operand(2)));
  Converted dx(b, x.dtype, rowsOf(b.result(0))), dScale(b, DType::F32, b.result(1));
  if (x.elements() == 0)
    return b.fill(b.result(1), 0);
  b.call(op::RmsNormGrad, dy, x, rstd, scale, dx.written, dScale.written);
  dx.finish();
  dScale.finish();
}

} // namespace kerf::runtime::ascend
