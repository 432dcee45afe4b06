// SPDX-License-Identifier: Apache-2.0
// The plan functions of all ops. Each one checks an instruction of its op and builds the instruction's kernel; it fails
// with a message if the instruction is wrong. Kernels.cpp maps the names of ops to plan functions.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

// Elementwise.cpp, Unary.cpp
/// Returns whether planUnary handles the op: one operand, one result, each element computed from one element.
bool isUnary(std::string_view op);
/// Checks an instruction of an element-wise op of one operand that isUnary accepts and builds its kernel.
Result<PlannedKernel> planUnary(const BindRequest &request);
/// Checks an instruction of convert (conversion to another element type) and builds its kernel.
Result<PlannedKernel> planConvert(const BindRequest &request);
/// Checks an instruction of accumulate (addition of a value to a sum of a wider type) and builds its kernel.
Result<PlannedKernel> planAccumulate(const BindRequest &request);
/// Checks an instruction of reduce_precision (rounding to fewer mantissa and exponent bits) and builds its kernel.
Result<PlannedKernel> planReducePrecision(const BindRequest &request);
/// Checks an instruction of is_nan and builds its kernel.
Result<PlannedKernel> planIsNan(const BindRequest &request);
/// Checks an instruction of gelu (by erf or by its tanh approximation) and builds its kernel.
Result<PlannedKernel> planGelu(const BindRequest &request);
/// Checks an instruction of gelu_backward and builds its kernel.
Result<PlannedKernel> planGeluBackward(const BindRequest &request);
/// Checks an instruction of an element-wise op of two operands, such as add or maximum, and builds its kernel.
Result<PlannedKernel> planBinary(const BindRequest &request);
/// Checks an instruction of compare and builds its kernel.
Result<PlannedKernel> planCompare(const BindRequest &request);
/// Checks an instruction of select (element-wise choice between two operands) and builds its kernel.
Result<PlannedKernel> planSelect(const BindRequest &request);
/// Returns the address of the function that applies a unary op to n elements of f32 or f64 (see runtime::routine); null
/// for any other op.
void *unaryRoutine(std::string_view op, DType dtype);
/// Returns the address of the function that applies a binary op to n elements of f32 or f64 (see runtime::routine);
/// null for any other op.
void *binaryRoutine(std::string_view op, DType dtype);
// Shape.cpp
/// Checks an instruction of constant and builds its kernel.
Result<PlannedKernel> planConstant(const BindRequest &request);
/// Checks an instruction of iota (the indices along one dimension) and builds its kernel.
Result<PlannedKernel> planIota(const BindRequest &request);
/// Checks an instruction of broadcast_in_dim and builds its kernel.
Result<PlannedKernel> planBroadcastInDim(const BindRequest &request);
/// Checks an instruction of transpose and builds its kernel.
Result<PlannedKernel> planTranspose(const BindRequest &request);
/// Checks an instruction of slice (with strides) and builds its kernel.
Result<PlannedKernel> planSlice(const BindRequest &request);
/// Checks an instruction of pad and builds its kernel.
Result<PlannedKernel> planPad(const BindRequest &request);
/// Checks an instruction of concatenate and builds its kernel.
Result<PlannedKernel> planConcatenate(const BindRequest &request);
// Reduce.cpp
/// Checks an instruction of reduce (sum, maximum or minimum over dimensions) and builds its kernel.
Result<PlannedKernel> planReduce(const BindRequest &request);
// Dot.cpp
/// Checks an instruction of dot_general (batched matrix product) and builds its kernel. With a third operand, the
/// result is this operand plus the product.
Result<PlannedKernel> planDotGeneral(const BindRequest &request);
// Quantize.cpp
/// Returns whether the type is one of the 8-bit floating-point types.
bool isFloat8(DType dtype);
/// Checks an instruction of quantize (float32 to 8-bit floats with a scale) and builds its kernel.
Result<PlannedKernel> planQuantize(const BindRequest &request);
/// Checks an instruction of dot_general with 8-bit factors, float32 magnitudes and a float32 result, and builds its
/// kernel.
Result<PlannedKernel> planFloat8Product(const BindRequest &request);
// Convolution.cpp
/// Checks an instruction of convolution and builds its kernel.
Result<PlannedKernel> planConvolution(const BindRequest &request);
/// Checks an instruction of convolution_transpose (a convolution's gradient with respect to its operand) and
/// builds its kernel.
Result<PlannedKernel> planConvolutionTranspose(const BindRequest &request);
/// Checks an instruction of convolution_kernel (a convolution's gradient with respect to its kernel) and
/// builds its kernel.
Result<PlannedKernel> planConvolutionKernel(const BindRequest &request);
// Pool.cpp
/// Checks an instruction of reduce_window (pooling) and builds its kernel.
Result<PlannedKernel> planReduceWindow(const BindRequest &request);
/// Checks an instruction of select_and_scatter (the gradient of max pooling) and builds its kernel.
Result<PlannedKernel> planSelectAndScatter(const BindRequest &request);
// Norm.cpp
/// Checks an instruction of softmax and builds its kernel.
Result<PlannedKernel> planSoftmax(const BindRequest &request);
/// Checks an instruction of softmax_backward and builds its kernel.
Result<PlannedKernel> planSoftmaxBackward(const BindRequest &request);
/// Checks an instruction of layer_norm and builds its kernel.
Result<PlannedKernel> planLayerNorm(const BindRequest &request);
/// Checks an instruction of layer_norm_backward and builds its kernel.
Result<PlannedKernel> planLayerNormBackward(const BindRequest &request);
/// Checks an instruction of rms_norm and builds its kernel.
Result<PlannedKernel> planRmsNorm(const BindRequest &request);
/// Checks an instruction of rms_norm_backward and builds its kernel.
Result<PlannedKernel> planRmsNormBackward(const BindRequest &request);
// Attention.cpp, AttentionBlock.cpp
/// Checks an instruction of attention and builds its kernel.
Result<PlannedKernel> planAttention(const BindRequest &request);
/// Checks an instruction of attention_backward and builds its kernel.
Result<PlannedKernel> planAttentionBackward(const BindRequest &request);
/// Checks an instruction of attention_block (one step of ring attention) and builds its kernel.
Result<PlannedKernel> planAttentionBlock(const BindRequest &request);
/// Checks an instruction of attention_block_backward and builds its kernel.
Result<PlannedKernel> planAttentionBlockBackward(const BindRequest &request);
// Loss.cpp
/// Checks an instruction of cross_entropy and builds its kernel.
Result<PlannedKernel> planCrossEntropy(const BindRequest &request);
/// Checks an instruction of cross_entropy_backward and builds its kernel.
Result<PlannedKernel> planCrossEntropyBackward(const BindRequest &request);
// Gather.cpp
/// Checks an instruction of gather and builds its kernel.
Result<PlannedKernel> planGather(const BindRequest &request);
/// Checks an instruction of scatter_add (the gradient of gather) and builds its kernel.
Result<PlannedKernel> planScatterAdd(const BindRequest &request);
/// Checks an instruction of embedding and builds its kernel.
Result<PlannedKernel> planEmbedding(const BindRequest &request);
/// Checks an instruction of embedding_backward and builds its kernel.
Result<PlannedKernel> planEmbeddingBackward(const BindRequest &request);
// TopK.cpp
/// Checks an instruction of top_k and builds its kernel.
Result<PlannedKernel> planTopK(const BindRequest &request);
/// Checks an instruction of top_k_backward and builds its kernel.
Result<PlannedKernel> planTopKBackward(const BindRequest &request);
// Routing.cpp
/// Checks an instruction of dispatch (from tokens to the slots of experts) and builds its kernel.
Result<PlannedKernel> planDispatch(const BindRequest &request);
/// Checks an instruction of combine (from the slots of experts back to tokens) and builds its kernel.
Result<PlannedKernel> planCombine(const BindRequest &request);
/// Checks an instruction of combine_backward (combine's gradient with respect to the routing weights) and
/// builds its kernel.
Result<PlannedKernel> planCombineBackward(const BindRequest &request);
// Random.cpp
/// Checks an instruction of dropout and builds its kernel.
Result<PlannedKernel> planDropout(const BindRequest &request);
// Codec.cpp
/// Checks an instruction of random_key (hash of seed, step, tensor and rank) and builds its kernel.
Result<PlannedKernel> planRandomKey(const BindRequest &request);
/// Checks an instruction of random (random numbers that depend on key and index) and builds its kernel.
Result<PlannedKernel> planRandom(const BindRequest &request);
/// Checks an instruction of pack (several small integers in a byte) and builds its kernel.
Result<PlannedKernel> planPack(const BindRequest &request);
/// Checks an instruction of unpack (the inverse of pack) and builds its kernel.
Result<PlannedKernel> planUnpack(const BindRequest &request);
// Optimizer.cpp
/// Checks an instruction of sync_gradient (a copy: the reduction is an instruction of its own) and builds its kernel.
Result<PlannedKernel> planSyncGradient(const BindRequest &request);
/// Checks an instruction of count_nonfinite (the number of infinite or NaN elements) and builds its kernel.
Result<PlannedKernel> planCountNonfinite(const BindRequest &request);
// Native.cpp
/// Checks a call of one of the package's compiled kernels and builds its kernel.
Result<PlannedKernel> planNative(const BindRequest &request);
// Device.cpp
/// Checks an instruction of shard_offset (the first index of the rank's shard) and builds its kernel.
Result<PlannedKernel> planShardOffset(const BindRequest &request);
/// Checks an instruction of mask_padding (replaces padding by a value) and builds its kernel.
Result<PlannedKernel> planMaskPadding(const BindRequest &request);
/// Checks an instruction of local_slice (the rank's part of a tensor that all ranks hold) and builds its kernel.
Result<PlannedKernel> planLocalSlice(const BindRequest &request);

} // namespace kerf::runtime::kernels
