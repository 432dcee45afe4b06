// SPDX-License-Identifier: Apache-2.0
// Helpers of the calls of lookups and of routing: indices as parameters, and sorting them by the row that they name.
#pragma once

#include "Calls.h"
#include "Kernels/ParametersLookup.h"

namespace kerf::runtime::cuda {

/// Returns the parameter for a tensor of i64 or i32.
inline Integers integersOf(const TensorView &view) { return {view.data, view.dtype == DType::I64}; }
/// Returns the parameter for the optional operand number i, whose address is null if there is no such operand.
inline Integers optionalIntegers(const CallRequest &r, size_t i) {
  return r.operands() > i ? integersOf(r.operand(i)) : Integers();
}

/// The addresses of sorted indices in scratch memory. The indices of row r are those of numbers places[starts[r]] to
/// places[starts[r + 1] - 1], in ascending order; `keys` are their rows. Row number `rows` has the other indices.
struct SortedRows {
  const uint32_t *keys = nullptr, *places = nullptr, *starts = nullptr;
};
/// Adds the calls that check the indices of `lookup` and sort them by their row, which is one of `rows`. Takes scratch
/// memory from `calls.scratchBytes` on. Fails if there are too many indices or rows.
Result<SortedRows> addSort(Calls &calls, const CallRequest &r, const RowLookup &lookup, int64_t rows);

/// Returns the byte offset of `bytes` more bytes of scratch memory.
int64_t takeScratch(Calls &calls, int64_t bytes);

/// Adds a call whose threads share `work` elements, unless there are none.
template <typename P>
void addElementCall(Calls &calls, std::string_view file, DType type, std::string_view entry, int64_t work,
                    const P &parameters) {
  if (work > 0)
    calls.calls.push_back(elementCall(file, type, entry, work, parameters));
}
/// Adds a call in which one block at a time works on one of `rows` rows of `width` elements, unless there are none.
template <typename P>
void addRowCall(Calls &calls, std::string_view file, DType type, std::string_view entry, int64_t rows, int64_t width,
                const P &parameters) {
  if (rows > 0)
    calls.calls.push_back(rowCall(file, type, entry, rows, width, parameters));
}

/// Returns the element type of a module for kernels that exist for floating types only and look at the size of
/// elements, not at their type.
inline DType movingType(DType dtype) {
  bool isFloating = dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
  return isFloating ? dtype : DType::F32;
}

} // namespace kerf::runtime::cuda
