// SPDX-License-Identifier: Apache-2.0
// A product and the instruction after it that adds another tensor of the result's shape, perhaps together with a bias:
// result = P + addend, or P + bias + addend. A group (kerf/Package/Epilogue.h) may be one. Its epilogue is then
// EpilogueKind::Bias, without a bias where none is added.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::package {

/// The tensors of an addition, as flat values.
struct ProductAddition {
  int product = -1; // P, which is not stored
  int addend = -1;
  int bias = -1; // -1: none
  int result = -1;
};

/// Returns the addition that a group of instructions is; the first of them must be the product. Returns nothing if the
/// group is none, or if the tensors have another type than the product or one that products do not add.
std::optional<ProductAddition> additionOf(const std::vector<Value> &values, std::span<const FlatInstruction> group);

} // namespace kerf::package
