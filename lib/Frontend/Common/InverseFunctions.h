// SPDX-License-Identifier: Apache-2.0
// Arcsine, arccosine and atan2 as formulas over the arctangent. They are accurate to a few units in the last place over
// the whole range, and their gradients at the ends of the range are those of the functions.
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// Returns the arcsine of a floating-point term; NaN outside of [-1, 1].
Result<Term> arcSine(TermBuilder &b, const Term &x);
/// Returns the arccosine of a floating-point term; NaN outside of [-1, 1].
Result<Term> arcCosine(TermBuilder &b, const Term &x);
/// Returns the angle of the points (x, y) in radians with the sign of y, as C's atan2 does. `x` and `y` have one shape.
Result<Term> arcTangentOfRatio(TermBuilder &b, const Term &y, const Term &x);

} // namespace kerf::frontend
