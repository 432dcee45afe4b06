// SPDX-License-Identifier: Apache-2.0
// Positions of the text that a model was imported from. An op of StableHLO text has the location
// loc("scope/op"("kerf.text":line:column)).
#pragma once

#include "llvm/ADT/StringRef.h"

namespace kerf::ir {

/// The file name in locations that are positions of the imported text.
inline constexpr llvm::StringLiteral kTextLocation = "kerf.text";

} // namespace kerf::ir
