// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients as graphs of cuDNN. cuDNN's fused kernels take a graph of exactly these operations, and
// never write the matrix of scores to memory in the forward pass.
#pragma once

#include "CudnnGraph.h"
#include "Kernels/ParametersAttention.h"

namespace kerf::runtime::cuda {

/// Returns the strides of tensors without gaps.
inline AttentionStrides denseStrides(const AttentionSizes &z) { return {z.h * z.d, z.g * z.d, z.g * z.e}; }

/// The batch entries and key/value heads that one execution of a graph computes, of all of an instruction. The fused
/// gradients write the gradients of all scores of a slice to the workspace, so slices keep the workspace small.
struct AttentionSlice {
  int64_t batches, groups;
};

/// Returns the distance in elements between rows of the bias, which is the mask as float32 numbers that are added to
/// the scores. Rows begin at multiples of 16 bytes.
inline int64_t biasColumns(const AttentionSizes &z) { return (z.t + 7) / 8 * 8; }
/// Returns the bytes of the bias of `batches` batch entries; 0 without a mask.
int64_t biasBytes(const AttentionSizes &z, int64_t batches);

/// The graph of attention, and the numbers of its tensors in memory. `bias` is -1 without a mask.
struct ForwardGraph {
  CudnnGraph graph;
  int query, key, value, out, lse, bias;
};
/// Returns the graph of one slice of attention; `type` is the 16-bit type of all tensors but the log-sum-exp and the
/// bias, which are float32. Causal attention must begin at the first key.
ForwardGraph forwardGraph(const AttentionSizes &z, const AttentionStrides &strides, AttentionSlice slice,
                          CudnnData type);

/// How the gradients of queries, which are sums over keys, are added. Each way is a graph of its own.
enum class QuerySums {
  Ordered,   // the gradients of all scores go to the workspace; the results have the same bits in every run
  Unordered, // tiles of keys add to float32 numbers in memory, in an order that changes from run to run
};

/// The graph of attention's gradients, and the numbers of its tensors in memory. `dots` and `sums` are scratch memory
/// with float32 numbers: one for each query, and one for each element of a slice's queries (-1 where the sums are
/// ordered). `bias` is -1 without a mask.
struct BackwardGraph {
  CudnnGraph graph;
  int query, key, value, out, lse, dOut, dQuery, dKey, dValue, dots, sums, bias;
};
/// Returns the graph of one slice of attention's gradients, for the tensors that forwardGraph takes. `gradients` are
/// the strides of the results.
BackwardGraph backwardGraph(const AttentionSizes &z, const AttentionStrides &strides, const AttentionStrides &gradients,
                            AttentionSlice slice, CudnnData type, QuerySums sums);

/// Most bytes of workspace that a plan of forwardGraph may need.
inline constexpr int64_t kForwardWorkspace = 256;
/// Returns the most bytes of workspace that a plan of backwardGraph may need. The formula is what cuDNN 9.19 asks for
/// on an H200: where the sums are ordered, the gradients of all scores, rounded up to whole tiles; with grouped heads
/// also the gradients of keys and values of each query head.
int64_t backwardWorkspace(const AttentionSizes &z, AttentionSlice slice, QuerySums sums);
/// Returns the bytes of the float32 numbers to which the gradients of a slice's queries are added; 0 where the sums are
/// ordered.
int64_t querySumsBytes(const AttentionSizes &z, AttentionSlice slice, QuerySums sums);

/// Returns the largest slice of whole batch entries that divides the batch evenly and whose bias needs at most
/// `mostBytes`, or one batch entry.
AttentionSlice forwardSlice(const AttentionSizes &z, int64_t mostBytes);
/// Returns the largest slice that divides the batch evenly and whose gradients need at most `mostBytes` of workspace
/// (without the bytes that a slice of any size needs), query sums and bias. If one batch entry needs more without its bias, the slice also divides its key/value heads,
/// down to one.
AttentionSlice backwardSlice(const AttentionSizes &z, int64_t mostBytes, QuerySums sums);

} // namespace kerf::runtime::cuda
