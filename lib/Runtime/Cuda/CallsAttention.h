// SPDX-License-Identifier: Apache-2.0
// The sizes of attention instructions, and Kerf's own kernels for the rows of a mask that cuDNN does not compute.
#pragma once

#include "../Cpu/Kernels/Attention.h"
#include "Calls.h"
#include "Kernels/ParametersAttention.h"

namespace kerf::runtime::cuda {

/// Returns the sizes of an attention instruction whose query, key, value and (if `masked`) mask are the operands from
/// number `first` on. The mask may be float32 beside 16-bit tensors.
AttentionSizes attentionSizesOf(const CallRequest &request, size_t first, bool masked, kernels::KeyScope scope);

/// Returns the elements from a row of a tensor [batch, rows, heads, width] to the next one.
inline int64_t rowStrideOf(const TensorView &view) {
  return view.rowStride > 0 ? view.rowStride : view.shape[2] * view.shape[3];
}
/// Returns the strides of three tensors: a query, a key and a value, or their gradients.
inline AttentionStrides stridesOf(const TensorView &query, const TensorView &key, const TensorView &value) {
  return {rowStrideOf(query), rowStrideOf(key), rowStrideOf(value)};
}

/// Adds the calls that compute the rows of isOwnRow of an attention instruction with a mask, after the calls that
/// compute all others. The log-sum-exp is float32.
void addOwnRows(Calls &calls, const CallRequest &request, const MaskTops &tops);
/// Adds the calls that compute the query gradients of the rows of isOwnRow of an attention_backward instruction with a
/// mask, and that add their parts to the gradients of keys and values. The log-sum-exp is float32. Takes scratch memory
/// from `calls.scratchBytes` on.
void addOwnRowsBackward(Calls &calls, const CallRequest &request, const MaskTops &tops);

} // namespace kerf::runtime::cuda
