// SPDX-License-Identifier: Apache-2.0
// Collectives that a device's library computes with one call, instead of sends, receives and a sum in the order of the
// ranks.
#pragma once

#include "Exchanges.h"

namespace kerf::runtime {

/// One call of the library for a whole collective.
struct NativeCollective {
  enum class Kind { AllReduce, ReduceScatter, AllGather } kind = Kind::AllReduce;
  void *from = nullptr, *to = nullptr;
  uint64_t count = 0; // elements of the result for a reduction; bytes of the operand for an all_gather
  int type = 0;       // the library's number of the element type
  int combine = 0;    // the library's number of a reduction's way to combine
};

/// The numbers by which a library knows element types and ways to combine.
struct LibraryNumbers {
  /// An element type that the library adds.
  struct Type {
    DType dtype;
    int number;
    bool isFloating;
  };
  /// A way to combine elements.
  struct Combine {
    std::string_view kind; // the attribute `kind` of a reduction
    int number;
  };
  std::span<const Type> types;
  std::span<const Combine> combines;
  int bytes; // the type of a gather that moves bytes
};

/// Returns the call that computes the collective. Returns nothing where the library has no call for it, or where the
/// result would be another: a sum of floating-point numbers if it must be `ordered`, and a maximum or minimum of such
/// numbers, for which neither NCCL nor HCCL says what becomes of NaN.
std::optional<NativeCollective> nativeCollective(const CheckedCollective &collective, const LibraryNumbers &numbers,
                                                 bool ordered);

} // namespace kerf::runtime
