// SPDX-License-Identifier: Apache-2.0
// Calls of the cross entropy, composed of single operators, because it also takes labels that are ignored, columns that
// belong to no class, and shards of the rows.
#include "Calls.h"

#include <fmt/format.h>

namespace kerf::runtime::ascend {

namespace {
/// The rows of logits that are read: float32, without the columns that belong to no class.
struct Rows {
  View logits;    // [rows, classes] of float32
  View labels;    // [rows, 1] of i64, in [0, classes)
  View isIgnored; // [rows, 1] of booleans
  int64_t rows, classes, width;
};

Rows rowsOf(Builder &b) {
  b.refuseDoubles();
  View logits = b.operand(0), labels = b.operand(1);
  int64_t width = logits.sizes.back(), rows = product(logits.sizes, 0, logits.sizes.size() - 1);
  int64_t classes = b.integerOr("classes", width), ignored = b.integer("ignore_index");
  b.calls.check = IndexCheck{b.request.operands[1], 0, classes, ignored, [=](int64_t value, int64_t where) -> Error {
                               return {fmt::format("label {} of row {} is outside of [0, {}) and is not the ignored "
                                                   "label {}; check the input data",
                                                   value, where, classes, ignored)};
                             }};
  Rows all{sliced(reshaped(logits, {rows, width}), 1, 0, classes), {}, {}, rows, classes, width};
  all.logits = b.as(DType::F32, all.logits);
  View given = reshaped(labels, {rows, 1});
  View ignore = b.constant(labels.dtype, {}, &ignored); // little-endian: an i32 is the low half of an i64
  all.isIgnored = b.temporary(DType::Bool, {rows, 1});
  b.call(op::EqTensor, given, broadcast(ignore, {rows, 1}, {}), all.isIgnored);
  View inside = b.temporary(labels.dtype, {rows, 1});
  b.call(op::Clamp, given, Builder::scalar(labels.dtype, 0), Builder::scalar(labels.dtype, double(classes - 1)),
         inside);
  all.labels = b.as(DType::I64, inside);
  return all;
}
} // namespace

void callCrossEntropy(Builder &b) {
  Rows r = rowsOf(b);
  View nll = b.temporary(DType::F32, {r.rows, 1}), lse = b.temporary(DType::F32, {r.rows, 1}),
       picked = b.temporary(DType::F32, {r.rows, 1});
  logSumExp(b, r.logits, 1, lse);
  b.call(op::Gather, r.logits, int64_t(1), r.labels, picked);
  b.subtract(lse, picked, nll);
  b.call(op::InplaceMaskedFillScalar, nll, r.isIgnored, Builder::scalar(DType::F32, 0));
  b.copy(reshaped(nll, b.result(0).sizes), b.result(0));
  b.copy(reshaped(lse, b.result(1).sizes), b.result(1));
}

void callCrossEntropyBackward(Builder &b) {
  Rows r = rowsOf(b);
  View lse = b.as(DType::F32, reshaped(b.operand(2), {r.rows, 1})),
       gradient = b.as(DType::F32, reshaped(b.operand(3), {r.rows, 1}));
  Shape sizes = {r.rows, r.classes};
  // exp(logits - lse), from which 1 is subtracted at the label. Rows that are ignored have a gradient of 0.
  View p = b.temporary(DType::F32, sizes), minusOne = b.temporary(DType::F32, {r.rows, 1}),
       factor = b.temporary(DType::F32, {r.rows, 1});
  b.subtract(r.logits, broadcast(lse, sizes, {0, 1}), p);
  b.call(op::Exp, p, p);
  b.copy(gradient, factor);
  b.call(op::InplaceMaskedFillScalar, factor, r.isIgnored, Builder::scalar(DType::F32, 0));
  b.call(op::Mul, p, broadcast(factor, sizes, {0, 1}), p);
  b.call(op::InplaceMaskedFillScalar, p, broadcast(r.isIgnored, sizes, {0, 1}), Builder::scalar(DType::F32, 0));
  b.call(op::Neg, factor, minusOne);
  View whole = reshaped(b.result(), {r.rows, r.width});
  bool isDirect = whole.dtype == DType::F32 && r.classes == r.width;
  View sum = isDirect ? whole : b.temporary(DType::F32, sizes);
  b.call(op::ScatterAdd, p, int64_t(1), r.labels, minusOne, sum);
  if (isDirect)
    return;
  if (r.classes < r.width)
    b.fill(sliced(whole, 1, r.classes, r.width - r.classes), 0);
  b.copy(sum, sliced(whole, 1, 0, r.classes));
}

} // namespace kerf::runtime::ascend
