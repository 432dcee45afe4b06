// SPDX-License-Identifier: Apache-2.0
// The plan functions of the kernel families: each checks an instruction and makes its kernel. Kernels.cpp maps op names
// to them.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

// Elementwise.cpp, Unary.cpp
bool isUnary(std::string_view op);
Result<Planned> planUnary(const BindRequest &request);
Result<Planned> planConvert(const BindRequest &request);
Result<Planned> planAccumulate(const BindRequest &request);
Result<Planned> planReducePrecision(const BindRequest &request);
Result<Planned> planIsNan(const BindRequest &request);
Result<Planned> planGelu(const BindRequest &request);
Result<Planned> planGeluBackward(const BindRequest &request);
Result<Planned> planBinary(const BindRequest &request);
Result<Planned> planCompare(const BindRequest &request);
Result<Planned> planSelect(const BindRequest &request);
/// For `routine`, of f32 or f64: null where the op is none.
void *unaryRoutine(std::string_view op, DType dtype);
void *binaryRoutine(std::string_view op, DType dtype);
// Shape.cpp
Result<Planned> planConstant(const BindRequest &request);
Result<Planned> planIota(const BindRequest &request);
Result<Planned> planBroadcastInDim(const BindRequest &request);
Result<Planned> planTranspose(const BindRequest &request);
Result<Planned> planSlice(const BindRequest &request);
Result<Planned> planPad(const BindRequest &request);
Result<Planned> planConcatenate(const BindRequest &request);
// Reduce.cpp
Result<Planned> planReduce(const BindRequest &request);
// Dot.cpp
Result<Planned> planDotGeneral(const BindRequest &request);
// Convolution.cpp
Result<Planned> planConvolution(const BindRequest &request);
Result<Planned> planConvolutionTranspose(const BindRequest &request);
Result<Planned> planConvolutionKernel(const BindRequest &request);
// Pool.cpp
Result<Planned> planReduceWindow(const BindRequest &request);
Result<Planned> planSelectAndScatter(const BindRequest &request);
// Norm.cpp
Result<Planned> planSoftmax(const BindRequest &request);
Result<Planned> planSoftmaxBackward(const BindRequest &request);
Result<Planned> planLayerNorm(const BindRequest &request);
Result<Planned> planLayerNormBackward(const BindRequest &request);
Result<Planned> planRmsNorm(const BindRequest &request);
Result<Planned> planRmsNormBackward(const BindRequest &request);
// Attention.cpp, AttentionBlock.cpp
Result<Planned> planAttention(const BindRequest &request);
Result<Planned> planAttentionBackward(const BindRequest &request);
Result<Planned> planAttentionBlock(const BindRequest &request);
Result<Planned> planAttentionBlockBackward(const BindRequest &request);
// Loss.cpp
Result<Planned> planCrossEntropy(const BindRequest &request);
Result<Planned> planCrossEntropyBackward(const BindRequest &request);
// Gather.cpp
Result<Planned> planGather(const BindRequest &request);
Result<Planned> planScatterAdd(const BindRequest &request);
Result<Planned> planEmbedding(const BindRequest &request);
Result<Planned> planEmbeddingBackward(const BindRequest &request);
// Routing.cpp
Result<Planned> planTopK(const BindRequest &request);
Result<Planned> planTopKBackward(const BindRequest &request);
Result<Planned> planDispatch(const BindRequest &request);
Result<Planned> planCombine(const BindRequest &request);
Result<Planned> planCombineBackward(const BindRequest &request);
// Random.cpp
Result<Planned> planDropout(const BindRequest &request);
// Optimizer.cpp
Result<Planned> planSyncGradient(const BindRequest &request);
Result<Planned> planCountNonfinite(const BindRequest &request);
// Native.cpp
Result<Planned> planNative(const BindRequest &request);
// Device.cpp
Result<Planned> planShardOffset(const BindRequest &request);
Result<Planned> planMaskPadding(const BindRequest &request);
Result<Planned> planLocalSlice(const BindRequest &request);

} // namespace kerf::runtime::kernels
