// SPDX-License-Identifier: Apache-2.0
// Formats of fewer bits than Kerf computes in. A tensor of one is held in a wider type, with values that the format
// has: floating ones in the run's type, whole numbers in i8 and u8. Its term says so (Term::narrow), and only operators
// that say so read it: all others would compute in the wide type what the model computes in the narrow one.
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

struct NarrowFormat {
  enum class Kind { Floating, Signed, Unsigned };
  /// What is no number of usual size: nothing; all bits set but the sign's are NaN; an exponent of ones is an infinity
  /// or NaN; the bits of -0 are the only NaN, and there is no -0.
  enum class Special { None, OnesAreNan, Infinities, NegativeZeroIsNan };

  std::string_view name;    // ONNX's
  std::string_view hloName; // StableHLO's, where it is read
  int32_t number;           // ONNX's
  int bits;                 // of an element
  Kind kind;
  // Of floating ones. The numbers of a format: see Precision.h.
  int mantissaBits = 0, minExponent = 0;
  double largest = 0;
  Special special = Special::None;
};

/// Null for a type that is none.
const NarrowFormat *narrowFormat(int32_t onnxNumber);
const NarrowFormat *narrowFormat(std::string_view hloName);
/// The type that holds it in files: F32, I8 or U8.
DType heldType(const NarrowFormat &format);

/// Elements lie one behind the other, the first in the low bits of its byte.
int64_t packedBytes(const NarrowFormat &format, int64_t elements);
/// The element of those bits.
double decoded(const NarrowFormat &format, unsigned bits);
/// `packed` has packedBytes(format, elements).
Tensor decodedTensor(const NarrowFormat &format, const Shape &shape, const std::byte *packed);

/// What becomes of numbers beyond the largest: the largest, or what the format has for them.
enum class Saturate { No, Yes };
/// The format's nearest of each element, marked; of whole numbers the low bits.
Result<Term> toNarrow(TermBuilder &b, const NarrowFormat &format, Term x, Saturate saturate);

} // namespace kerf::frontend
