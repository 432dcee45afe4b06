// SPDX-License-Identifier: Apache-2.0
// Strided copies as calls of Kernels/Shape.cu.
#pragma once

#include "Calls.h"

namespace kerf::runtime::cuda {

/// One loop of a copy: its size and the strides of both tensors.
struct CopyDim {
  int64_t size, from, to;
};

/// Removes loops of one round, and merges neighbours that walk both tensors as one loop would.
std::vector<CopyDim> merged(const std::vector<CopyDim> &dims);
/// Returns the error for more dimensions than kernels walk over.
Error tooManyDims(size_t dims);

/// Adds the copy of a box to the calls; `fromStart` and `toStart` are the places of its first element. Fails if the
/// box has too many dimensions that cannot be merged.
Status addCopy(Calls &calls, const TensorView &from, const TensorView &to, const std::vector<CopyDim> &loops,
               int64_t fromStart, int64_t toStart);

} // namespace kerf::runtime::cuda
