// SPDX-License-Identifier: Apache-2.0
// Calls of GELU and its gradient: one operator, or parts in float32.
#include "Calls.h"
#include "Prices.h"

#include <cmath>
#include <numbers>

namespace kerf::runtime::ascend {

namespace {
constexpr double kCubic = 0.044715;                                               // of GELU by tanh
const double kRoot = std::sqrt(2 / std::numbers::pi), kHalf = 1 / std::sqrt(2.0); // sqrt(2 / pi), sqrt(1 / 2)

/// Returns 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), or 1 + erf(x / sqrt(2)).
View risen(Builder &b, const View &x, bool byTanh) {
  View u = b.temporary(DType::F32, x.sizes);
  if (byTanh) {
    b.call(op::Mul, x, x, u);
    b.call(op::Muls, u, floatOf(kCubic), u);
    b.call(op::Adds, u, floatOf(1), floatOf(1), u);
    b.call(op::Mul, u, x, u);
    b.call(op::Muls, u, floatOf(kRoot), u);
    b.call(op::Tanh, u, u);
  } else {
    b.call(op::Muls, x, floatOf(kHalf), u);
    b.call(op::Erf, u, u);
  }
  b.call(op::Adds, u, floatOf(1), floatOf(1), u);
  return u;
}

void addParts(Builder &b) {
  b.refuseDoubles();
  View x = b.as(DType::F32, b.operand(0)), y = risen(b, x, b.flag("approximate"));
  b.call(op::Mul, y, x, y);
  b.call(op::Muls, y, floatOf(0.5), y);
  b.copy(y, b.result());
}

/// dy (r / 2 + x r' / 2), where r is what `risen` returns: r' is 2 exp(-x^2 / 2) / sqrt(2 pi) by erf, and
/// r (2 - r) sqrt(2 / pi) (1 + 3 * 0.044715 x^2) by tanh.
void addBackwardParts(Builder &b) {
  b.refuseDoubles();
  const bool byTanh = b.flag("approximate");
  View x = b.as(DType::F32, b.operand(0)), dy = b.as(DType::F32, b.operand(1)), r = risen(b, x, byTanh);
  View slope = b.temporary(DType::F32, x.sizes);
  b.call(op::Mul, x, x, slope);
  if (byTanh) {
    View rest = b.temporary(DType::F32, x.sizes);
    b.call(op::Muls, slope, floatOf(3 * kCubic), slope);
    b.call(op::Adds, slope, floatOf(1), floatOf(1), slope);
    b.call(op::Adds, r, floatOf(-2), floatOf(1), rest);
    b.call(op::Mul, rest, r, rest);
    b.call(op::Mul, slope, rest, slope);
    b.call(op::Muls, slope, floatOf(-kRoot), slope);
  } else {
    b.call(op::Muls, slope, floatOf(-0.5), slope);
    b.call(op::Exp, slope, slope);
    b.call(op::Muls, slope, floatOf(kRoot), slope);
  }
  b.call(op::Mul, slope, x, slope);
  b.add(r, slope, r);
  b.call(op::Mul, r, dy, r);
  b.call(op::Muls, r, floatOf(0.5), r);
  b.copy(r, b.result());
}
} // namespace

void callGelu(Builder &b) {
  auto general = [](Builder &b) { b.call(op::GeluV2, b.operand(0), int64_t(b.flag("approximate")), b.result()); };
  if (b.flag("approximate"))
    return choose(b, {{general}, {addParts}});
  choose(b, {{general}, {[](Builder &b) { b.call(op::Gelu, b.operand(0), b.result()); }}, {addParts}});
}

void callGeluBackward(Builder &b) {
  auto general = [](Builder &b) {
    b.call(op::GeluBackwardV2, b.operand(1), b.operand(0), b.flag("approximate") ? "tanh" : "none", b.result());
  };
  auto byErf = [](Builder &b) { b.call(op::GeluBackward, b.operand(1), b.operand(0), b.result()); };
  if (b.flag("approximate"))
    return choose(b, {{general}, {addBackwardParts}});
  choose(b, {{general}, {byErf}, {addBackwardParts}});
}

} // namespace kerf::runtime::ascend
