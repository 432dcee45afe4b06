// SPDX-License-Identifier: Apache-2.0
// Lookups with different indices for each batch entry (kerf.take_along), and the recognition of exporters' encodings of
// such lookups: index tuples, or rows of a merged table.
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// Returns x[b.., indices[b.., t..], c..], where b stands for the first `batchDims` dimensions.
Result<Term> takeAlong(TermBuilder &b, const Term &x, const Term &indices, int64_t batchDims);

/// Returns component `k` of each index tuple: `indices` has the shape [t.., depth], the result has [t..]. If a
/// concatenation made the tuples, the result is its operand; otherwise it is a slice.
Result<Term> componentOf(TermBuilder &b, const Term &indices, int64_t k);
/// Recognizes x[i, .., y[i.., j..], ..], a lookup by tuples in which every component but one counts 0, 1, 2, ... along
/// a batch dimension, and returns it as takeAlong. Returns nothing for other components.
Result<std::optional<Term>> takeAtTuples(TermBuilder &b, const Term &x, const std::vector<Term> &components);
/// Recognizes a lookup of the rows `i * n + j` of `x`, in which i counts along a dimension of the indices, and returns
/// it as takeAlong. PyTorch's older exporter writes t[arange(m), j] in this way, with the tensor t [m, n, ..] reshaped
/// to [m * n, ..]. Returns nothing for other indices.
Result<std::optional<Term>> takeMergedRows(TermBuilder &b, const Term &x, const Term &indices);

} // namespace kerf::frontend
