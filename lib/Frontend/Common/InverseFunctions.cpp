// SPDX-License-Identifier: Apache-2.0
#include "Common/InverseFunctions.h"
#include "Common/Formula.h"

#include <limits>
#include <numbers>

namespace kerf::frontend {

static Result<Term> finished(Formula &f, Term term) {
  if (f.fault)
    return *f.fault;
  return term;
}

/// Returns sqrt(1 - x) and sqrt(1 + x). As separate factors they avoid cancellation near the ends of the range, and
/// gradients there are not infinity times 0.
static std::pair<Term, Term> roots(Formula &f, const Term &x) {
  Term one = f.number(1);
  return {f.unary(Unary::Sqrt, f.subtract(one, x)), f.unary(Unary::Sqrt, f.add(one, x))};
}

// Both functions use tan(a / 2) = sin a / (1 + cos a). For a = arcsin x, cos a = sqrt(1 - x) sqrt(1 + x). For a =
// arccos x, sin(a / 2) = sqrt((1 - x) / 2) and cos(a / 2) = sqrt((1 + x) / 2).

Result<Term> arcSine(TermBuilder &b, const Term &x) {
  KERF_CHECK(checkFloat(x));
  Formula f(b, x.dtype);
  auto [below, above] = roots(f, x);
  Term half = f.divide(x, f.add(f.number(1), f.multiply(below, above)));
  return finished(f, f.multiply(f.number(2), f.unary(Unary::Atan, half)));
}

Result<Term> arcCosine(TermBuilder &b, const Term &x) {
  KERF_CHECK(checkFloat(x));
  Formula f(b, x.dtype);
  auto [below, above] = roots(f, x);
  Term quarter = f.divide(below, f.add(f.number(std::numbers::sqrt2), above));
  return finished(f, f.multiply(f.number(4), f.unary(Unary::Atan, quarter)));
}

/// Returns whether `x` is negative; true for -0 too.
static Term isNegative(Formula &f, const Term &x) {
  Term zero = f.number(0);
  return f.compare(Order::Less, f.select(f.compare(Order::Equal, x, zero), f.divide(f.number(1), x), x), zero);
}

Result<Term> arcTangentOfRatio(TermBuilder &b, const Term &y, const Term &x) {
  KERF_CHECK(checkFloat(y));
  Formula f(b, y.dtype);
  // The larger operand is the divisor, so that the ratio is at most 1 in magnitude. For two infinities the ratio is 1
  // or -1, and for two zeros it is the first zero.
  Term sizeX = f.unary(Unary::Abs, x), sizeY = f.unary(Unary::Abs, y);
  Term turned = f.compare(Order::Greater, sizeY, sizeX);
  Term above = f.select(turned, x, y), below = f.select(turned, y, x);
  Term infinite = f.compare(Order::Equal, f.minimum(sizeX, sizeY), f.number(std::numeric_limits<double>::infinity()));
  above = f.select(infinite, f.unary(Unary::Sign, above), above);
  below = f.select(infinite, f.unary(Unary::Sign, below), below);
  below = f.select(f.compare(Order::Equal, below, f.number(0)), f.number(1), below);
  Term angle = f.unary(Unary::Atan, f.divide(above, below));
  // The angle is measured from the axis nearest to the point.
  auto signedAs = [&](const Term &sign, double size) {
    return f.select(isNegative(f, sign), f.number(-size), f.number(size));
  };
  Term fromY = f.subtract(signedAs(y, std::numbers::pi / 2), angle);
  Term behind = f.select(isNegative(f, x), f.add(signedAs(y, std::numbers::pi), angle), angle);
  return finished(f, f.select(turned, fromY, behind));
}

} // namespace kerf::frontend
