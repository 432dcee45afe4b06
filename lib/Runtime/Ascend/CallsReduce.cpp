// SPDX-License-Identifier: Apache-2.0
// Calls of reductions.
#include "Calls.h"

namespace kerf::runtime::ascend {

void callReduce(Builder &b) {
  View x = b.operand(0), y = b.result();
  std::vector<int64_t> dims = b.integers("dimensions");
  std::string kind = b.text("kind");
  if (dims.empty() || x.elements() == y.elements())
    return b.copy(reshaped(x, y.sizes), y);
  if (x.elements() == 0)
    return b.call(op::InplaceFillScalar, y,
                  kind == "sum" ? Builder::scalar(y.dtype, 0) : neutralOf(y.dtype, kind == "max"));
  if (y.dtype == DType::Bool) // the sum and the maximum of booleans are "or"
    return b.call(kind == "min" ? op::All : op::Any, x, dims, false, y);
  if (kind == "sum")
    return b.call(op::ReduceSum, x, dims, false, y.dtype, y);
  b.call(kind == "max" ? op::Amax : op::Amin, x, dims, false, y);
}

void callCountNonfinite(Builder &b) {
  View x = b.operand(0), total = b.result();
  if (x.elements() == 0)
    return b.fill(total, 0);
  int64_t n = x.elements();
  View flat = reshaped(x, {n}), isFinite = b.temporary(DType::Bool, {n});
  b.call(op::IsFinite, flat, isFinite);
  b.call(op::LogicalNot, isFinite, isFinite);
  View count = b.as(DType::I32, isFinite);
  b.call(op::ReduceSum, count, std::vector<int64_t>{0}, false, total.dtype, total);
}

} // namespace kerf::runtime::ascend
