// SPDX-License-Identifier: Apache-2.0
// Parts of a model that compute in float16 or bfloat16 (x.half(), x.to(torch.bfloat16)). Their tensors are held in the
// run's floating type with values that the 16-bit format has (Term::narrow): an operator computes on them in the wider
// type, and its result is rounded once, as PyTorch's kernels round theirs. Unlike narrower formats every operator reads
// them.
#pragma once

#include "Common/Narrow.h"
#include "Onnx/OnnxNode.h"

namespace kerf::frontend {

/// Returns FLOAT16's or BFLOAT16's format by ONNX's number of the type, null for any other type.
const NarrowFormat *halfFormat(int32_t onnxNumber);
/// Returns the same by the type of a stored tensor.
const NarrowFormat *halfFormat(DType stored);
/// Whether `format` is one of the two; false for null.
bool isHalf(const NarrowFormat *format);

/// The format's nearest of each element, marked. What is too large becomes infinite.
Result<Term> toHalf(TermBuilder &b, const NarrowFormat &format, Term x);

/// Returns the format to which a Cast or CastLike casts, where it is one of the two, else null.
const NarrowFormat *halfOfCast(const OnnxNode &node);
/// Returns the 16-bit format of a node's floating results: that of its operands. Null where these have other types, and
/// for operators that set the types of their results themselves.
const NarrowFormat *halfOfResults(const OnnxNode &node);
/// Rounds a floating result of `node` to `format`; only marks it where the operator moves elements or picks among them.
Status roundResult(OnnxNode &node, const NarrowFormat &format, Term &result);

} // namespace kerf::frontend
