// SPDX-License-Identifier: Apache-2.0
// Number formats with fewer bits than Kerf computes in, such as float8 and int4. A tensor in such a format is stored in
// a wider type, with values that the format can represent: floating-point values in the run's type, integers in i8 or
// u8. Term::narrow marks such a tensor. Only operators whose table entry allows narrow formats accept it, because other
// operators would compute in the wide type what the model computes in the narrow format.
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// A narrow number format.
struct NarrowFormat {
  enum class Kind { Floating, Signed, Unsigned };
  /// The special values of a floating-point format. None: only numbers. OnesAreNan: all bits but the sign set means
  /// NaN. Infinities: an exponent of ones means infinity or NaN. NegativeZeroIsNan: the bits of -0 are the only NaN.
  enum class Special { None, OnesAreNan, Infinities, NegativeZeroIsNan };

  std::string_view name;    // name in ONNX
  std::string_view hloName; // name in StableHLO; "" if StableHLO text with it is not read
  int32_t number;           // number of the type in ONNX
  int bits;                 // bits of an element
  Kind kind;
  // The fields below apply to floating-point formats; Precision.h describes them.
  int mantissaBits = 0, minExponent = 0;
  double largest = 0; // the largest finite value
  Special special = Special::None;
};

/// Returns the narrow format by ONNX's number of the type, or null for a type that is not narrow.
const NarrowFormat *narrowFormat(int32_t onnxNumber);
/// Returns the narrow format by its name in StableHLO, or null.
const NarrowFormat *narrowFormat(std::string_view hloName);
/// Returns the type in which tensors of the format are stored: F32, I8 or U8.
DType storageType(const NarrowFormat &format);

/// Returns the bytes of `elements` packed elements, which follow each other without gaps, the first in the low bits of
/// its byte.
int64_t packedBytes(const NarrowFormat &format, int64_t elements);
/// Returns the value that `bits` encode in the format.
double decoded(const NarrowFormat &format, unsigned bits);
/// Decodes the tensor of `shape` whose packed elements are at `packed`, packedBytes(format, elements) bytes.
Tensor decodedTensor(const NarrowFormat &format, const Shape &shape, const std::byte *packed);

/// Whether a number beyond the largest finite value becomes that value (Yes), or infinity or NaN as the format has it
/// (No).
enum class Saturate { No, Yes };
/// Rounds each element of `x` to the nearest value of the format and sets Term::narrow. For integer formats the low
/// bits are kept.
Result<Term> toNarrow(TermBuilder &b, const NarrowFormat &format, Term x, Saturate saturate);

} // namespace kerf::frontend
