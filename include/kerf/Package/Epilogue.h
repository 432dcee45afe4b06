// SPDX-License-Identifier: Apache-2.0
// A product and the instructions after it that one call of a library can compute together with it: a bias, GELU, GELU's
// gradient, and the sums that are the gradient of a bias. A list of steps marks such groups (StepEntry::Kind::Join). A
// device that has these calls runs a group as one instruction, and any other device runs its instructions one by one.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::package {

/// The work that is done together with a product P of row-major matrices. GELU is the form with tanh.
enum class EpilogueKind {
  Bias,         // result = P + bias, where the bias is added to each row
  BiasGelu,     // result = gelu(P + bias); P + bias may be a result too
  GeluGradient, // result = P * gelu'(kept); the sums of the columns of the result may be a result too
  FactorSums,   // result = P; the sums of a factor over the dimensions that the product contracts are a result too
};

/// A group of instructions as a product with an epilogue. The members are flat values, -1 where there is none.
struct ProductEpilogue {
  EpilogueKind kind = EpilogueKind::Bias;
  int product = -1; // the product's own result, which nothing outside of the group uses where it is not `result`
  int result = -1;
  int bias = -1;
  int kept = -1; // P + bias, the operand of GELU: a result of BiasGelu and an operand of GeluGradient
  int sums = -1;
  bool ofLeft = false; // whether `sums` are those of the left factor; else those of the result or the right factor
};

/// Returns the epilogue that a group of instructions is; the first of them must be the product. Returns nothing if the
/// group is none, or if the library would round where the instructions do not: all tensors but the factors have the
/// product's type, which is f32, bf16 or f16.
std::optional<ProductEpilogue> epilogueOf(const std::vector<Value> &values, std::span<const FlatInstruction> group);

/// Checks that each group that the program marks is an epilogue, and that nothing else uses a product that the group
/// does not store.
Status checkGroups(const FlatProgram &flat);

} // namespace kerf::package
