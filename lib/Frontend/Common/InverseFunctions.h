// SPDX-License-Identifier: Apache-2.0
// Inverses of sine and cosine, and angles of points, as formulas over the arctangent: accurate to a few units in the
// last place over the whole range, with the slopes of the functions at its ends.
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// Of floating terms; NaN outside of [-1, 1].
Result<Term> arcSine(TermBuilder &b, const Term &x);
Result<Term> arcCosine(TermBuilder &b, const Term &x);
/// The angle of the point (x, y), of one shape, with the sign of y: C's atan2.
Result<Term> arcTangentOfRatio(TermBuilder &b, const Term &y, const Term &x);

} // namespace kerf::frontend
