// SPDX-License-Identifier: Apache-2.0
// Parts of a model that compute in float16 or bfloat16 (x.half(), x.to(torch.bfloat16)). Their tensors are stored in
// the run's floating-point type, with values that the 16-bit format can represent (Term::narrow). An operator computes
// on these tensors in the wider type and rounds its result once, as PyTorch's kernels do. Every operator accepts these
// tensors, in contrast to tensors of still narrower formats.
#pragma once

#include "Common/Narrow.h"
#include "Onnx/OnnxNode.h"

namespace kerf::frontend {

/// Returns the format of FLOAT16 or BFLOAT16 by ONNX's number of the type, or null for any other type.
const NarrowFormat *halfFormat(int32_t onnxNumber);
/// Returns the format of F16 or BF16, the type of a stored tensor, or null for any other type.
const NarrowFormat *halfFormat(DType stored);
/// Returns whether `format` is float16 or bfloat16; false for null.
bool isHalf(const NarrowFormat *format);

/// Rounds each element of `x` to the nearest value of `format` and sets Term::narrow. Elements beyond the largest value
/// become infinite.
Result<Term> toHalf(TermBuilder &b, const NarrowFormat &format, Term x);

/// Returns float16 or bfloat16 if the Cast or CastLike node casts to it, and null otherwise.
const NarrowFormat *halfOfCast(const OnnxNode &node);
/// Returns the 16-bit format of the node's floating-point results, which is that of its operands. Returns null if the
/// operands have other types or the operator sets the types of its results itself.
const NarrowFormat *halfOfResults(const OnnxNode &node);
/// Rounds the floating-point `result` of `node` to `format`. For operators that only move or select elements it sets
/// Term::narrow without rounding.
Status roundResult(OnnxNode &node, const NarrowFormat &format, Term &result);

} // namespace kerf::frontend
