// SPDX-License-Identifier: Apache-2.0
// Lookups whose indices differ from one batch entry to the next: kerf.take_along, and the ways in which exporters write
// it as a lookup of tuples or of merged rows.
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// x[b.., indices[b.., t..], c..], where b has `batchDims` dimensions.
Result<Term> takeAlong(TermBuilder &b, const Term &x, const Term &indices, int64_t batchDims);

/// Element `k` of each tuple of `indices` (shape [t.., depth]), of shape [t..]: the operand of a concatenation that
/// made the tuples, else a slice.
Result<Term> componentOf(TermBuilder &b, const Term &indices, int64_t k);
/// x[i, .., y[i.., j..], ..]: all components of the tuples but one count along dimensions of the tuples of their own,
/// each along the whole of its dimension of `x`. These are batch dimensions, the other one is looked up. Nothing for
/// other components.
Result<std::optional<Term>> takeAtTuples(TermBuilder &b, const Term &x, const std::vector<Term> &components);
/// The rows of `x` at indices `i * n + j`, where i counts along a dimension of the indices: as PyTorch's older exporter
/// writes t[arange(m), j] for a tensor t [m, n, ..] that it has reshaped to [m * n, ..]. Nothing for other indices.
Result<std::optional<Term>> takeMergedRows(TermBuilder &b, const Term &x, const Term &indices);

} // namespace kerf::frontend
