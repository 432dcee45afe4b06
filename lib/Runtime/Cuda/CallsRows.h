// SPDX-License-Identifier: Apache-2.0
// Helpers of the calls whose kernels read 16 bytes at a time, or give a row to each warp.
#pragma once

#include "Calls.h"
#include "CallsSort.h"
#include "Kernels/ParametersNorm.h"

#include <initializer_list>

namespace kerf::runtime::cuda {

inline constexpr int64_t kPackBytes = 16, kWarpThreads = 32;

/// Returns whether all addresses are multiples of 16. They are null, which is such a multiple, while only the scratch
/// memory's size is asked for, so that size must not depend on the result.
inline bool areAligned(std::initializer_list<const void *> addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const void *address) { return reinterpret_cast<uintptr_t>(address) % kPackBytes == 0; });
}

/// Numbers of rows and of columns of a tensor whose last dimension has the columns.
struct RowSizes {
  int64_t rows, n;
};
inline RowSizes rowSizes(const TensorView &x) { return {product(x.shape, 0, x.shape.size() - 1), x.shape.back()}; }

/// Returns the parameter for a tensor that may be float32 beside 16-bit ones.
inline Floats floatsOf(const TensorView &view) { return {view.data, view.dtype == DType::F32}; }

/// Returns whether the kernels take the instruction as it is: each floating tensor has the type of operand 0 or, beside
/// 16-bit tensors, is float32, and all tensors of operand 0's shape have its type.
bool hasTypesOfRows(const CallRequest &r);

/// Makes a call in which each warp at a time works on one of `rows` rows.
template <typename P>
KernelCall warpCall(std::string_view file, DType type, std::string_view entry, int64_t rows, const P &parameters) {
  return elementCall(file, type, entry, rows * kWarpThreads, parameters);
}

/// Adds a call on `rows` rows of `n` elements of type `type`, which are neighbours and lie at multiples of 16 bytes if
/// `aligned`. Each warp has a row of up to kMostOfWarp elements, and each block a longer row.
template <typename P>
void addPackedRowCall(Calls &calls, std::string_view file, DType type, bool aligned, std::string_view byWarps,
                      std::string_view byBlocks, std::string_view singly, int64_t rows, int64_t n, const P &p) {
  constexpr int64_t kMostOfWarp = 1024;
  int64_t width = kPackBytes / bytesOf(type);
  if (rows == 0)
    return;
  if (!aligned)
    calls.calls.push_back(rowCall(file, type, singly, rows, n, p));
  else if (n <= kMostOfWarp)
    calls.calls.push_back(warpCall(file, type, byWarps, rows, p));
  else
    calls.calls.push_back(rowCall(file, type, byBlocks, rows, std::min<int64_t>(n / width, kRowThreads), p));
}

} // namespace kerf::runtime::cuda
