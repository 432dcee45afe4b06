// SPDX-License-Identifier: Apache-2.0
// Calls of normalizations: one operator, or parts in float32.
#include "Calls.h"
#include "Prices.h"

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

namespace {
void addLayerNorm(Builder &b) {
  View x = rowsOf(b.operand(0)), y = rowsOf(b.result(0));
  View scale = b.as(x.dtype, b.operand(1)), bias = b.as(x.dtype, b.operand(2));
  Converted mean(b, DType::F32, columnOf(b.result(1))), rstd(b, DType::F32, columnOf(b.result(2)));
  b.call(op::LayerNorm, x, std::vector<int64_t>{x.sizes[1]}, scale, bias, b.number("epsilon"), y, mean.written,
         rstd.written);
  mean.finish();
  rstd.finish();
}

void addLayerNormBackward(Builder &b) {
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

void addRmsNorm(Builder &b) {
  View x = rowsOf(b.operand(0)), y = rowsOf(b.result(0));
  View scale = b.as(x.dtype, b.operand(1));
  Converted rstd(b, DType::F32, columnOf(b.result(1)));
  b.call(op::RmsNorm, x, scale, b.number("epsilon"), y, rstd.written);
  rstd.finish();
}

void addRmsNormBackward(Builder &b) {
  View x = rowsOf(b.operand(0)), dy = b.as(x.dtype, rowsOf(b.operand(3)));
  View scale = b.as(x.dtype, b.operand(1)), rstd = b.as(DType::F32, columnOf(b.operand(2)));
  Converted dx(b, x.dtype, rowsOf(b.result(0))), dScale(b, DType::F32, b.result(1));
  if (x.elements() == 0)
    return b.fill(b.result(1), 0);
  b.call(op::RmsNormGrad, dy, x, rstd, scale, dx.written, dScale.written);
  dx.finish();
  dScale.finish();
}

// The parts. Rows are [rows, n]; numbers of rows are [rows, 1].

View perRow(const View &column, const Shape &sizes) { return broadcast(column, sizes, {0, 1}); }
View perColumn(const View &row, const Shape &sizes) { return broadcast(row, sizes, {1}); }

/// Sets a column to the means of rows.
void mean(Builder &b, const View &rows, const View &to) {
  b.call(op::ReduceSum, rows, std::vector<int64_t>{1}, true, DType::F32, to);
  b.call(op::Muls, to, floatOf(1.0 / double(rows.sizes[1])), to);
}

/// Normalizes rows: subtracts the mean (a layer norm only) and divides by the root of the mean square.
void addNormParts(Builder &b) {
  b.refuseDoubles();
  const bool isLayer = b.name() == "layer_norm";
  View x = b.as(DType::F32, rowsOf(b.operand(0))), y = b.temporary(DType::F32, x.sizes);
  Converted rstd(b, DType::F32, columnOf(b.result(isLayer ? 2 : 1)));
  if (isLayer) {
    Converted center(b, DType::F32, columnOf(b.result(1)));
    mean(b, x, center.written);
    View centered = b.temporary(DType::F32, x.sizes);
    b.subtract(x, perRow(center.written, x.sizes), centered);
    center.finish();
    x = centered;
  }
  b.call(op::Mul, x, x, y);
  mean(b, y, rstd.written);
  b.call(op::Adds, rstd.written, floatOf(b.number("epsilon")), floatOf(1), rstd.written);
  b.call(op::Rsqrt, rstd.written, rstd.written);
  b.call(op::Mul, x, perRow(rstd.written, x.sizes), y);
  b.call(op::Mul, y, perColumn(b.as(DType::F32, b.operand(1)), x.sizes), y);
  if (isLayer)
    b.add(y, perColumn(b.as(DType::F32, b.operand(2)), x.sizes), y);
  rstd.finish();
  b.copy(y, rowsOf(b.result(0)));
}

/// With g = dy scale and the normalized rows z: dx = rstd (g - mean(g) - z mean(g z)), without mean(g) for an RMS norm;
/// dScale and dBias are the sums of dy z and of dy over the rows.
void addNormBackwardParts(Builder &b) {
  b.refuseDoubles();
  const bool isLayer = b.name() == "layer_norm_backward";
  View x = b.as(DType::F32, rowsOf(b.operand(0))), scale = b.as(DType::F32, b.operand(1)),
       rstd = b.as(DType::F32, columnOf(b.operand(isLayer ? 3 : 2))),
       dy = b.as(DType::F32, rowsOf(b.operand(isLayer ? 4 : 3)));
  for (size_t i = 1; i < b.request.results.size() && x.elements() == 0; ++i)
    b.fill(b.result(i), 0);
  if (x.elements() == 0)
    return;
  View z = b.temporary(DType::F32, x.sizes), g = b.temporary(DType::F32, x.sizes),
       part = b.temporary(DType::F32, x.sizes), means = b.temporary(DType::F32, {x.sizes[0], 1});
  if (isLayer) {
    b.subtract(x, perRow(b.as(DType::F32, columnOf(b.operand(2))), x.sizes), z);
    x = z;
  }
  b.call(op::Mul, x, perRow(rstd, z.sizes), z);
  auto sumOfRows = [&](const View &rows, const View &result) {
    Converted sum(b, DType::F32, result);
    b.call(op::ReduceSum, rows, std::vector<int64_t>{0}, false, DType::F32, sum.written);
    sum.finish();
  };
  b.call(op::Mul, dy, z, part);
  sumOfRows(part, b.result(1));
  if (isLayer)
    sumOfRows(dy, b.result(2));
  b.call(op::Mul, dy, perColumn(scale, z.sizes), g);
  b.call(op::Mul, g, z, part);
  mean(b, part, means);
  b.call(op::Mul, z, perRow(means, z.sizes), z);
  if (isLayer) {
    mean(b, g, means);
    b.subtract(g, perRow(means, z.sizes), g);
  }
  b.subtract(g, z, g);
  b.call(op::Mul, g, perRow(rstd, z.sizes), g);
  b.copy(g, rowsOf(b.result(0)));
}
} // namespace

void callLayerNorm(Builder &b) { choose(b, {{addLayerNorm}, {addNormParts}}); }
void callLayerNormBackward(Builder &b) { choose(b, {{addLayerNormBackward}, {addNormBackwardParts}}); }
void callRmsNorm(Builder &b) { choose(b, {{addRmsNorm}, {addNormParts}}); }
void callRmsNormBackward(Builder &b) { choose(b, {{addRmsNormBackward}, {addNormBackwardParts}}); }

} // namespace kerf::runtime::ascend
