// SPDX-License-Identifier: Apache-2.0
#include "Calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace kerf::runtime::cuda {

namespace {
/// Whether the kernels of an op take floating tensors of one type only, or its function chooses what they take.
enum class Types { One, Any };

struct Row {
  std::string_view op;
  Result<Calls> (*calls)(const CallRequest &);
  Types types = Types::One;
};

constexpr Row kRows[] = {
    {"negate", callUnary},
    {"abs", callUnary},
    {"sign", callUnary},
    {"not", callUnary},
    {"exponential", callUnary},
    {"log", callUnary},
    {"sqrt", callUnary},
    {"rsqrt", callUnary},
    {"tanh", callUnary},
    {"logistic", callUnary},
    {"erf", callUnary},
    {"sine", callUnary},
    {"cosine", callUnary},
    {"atan", callUnary},
    {"floor", callUnary},
    {"ceil", callUnary},
    {"round_nearest_even", callUnary},
    {"stop_gradient", callUnary},
    {"gelu", callUnary},
    {"add", callBinary},
    {"subtract", callBinary},
    {"multiply", callBinary},
    {"divide", callBinary},
    {"maximum", callBinary},
    {"minimum", callBinary},
    {"power", callBinary},
    {"and", callBinary},
    {"or", callBinary},
    {"gelu_backward", callBinary},
    {"compare", callCompare},
    {"select", callSelect},
    {"convert", callConvert, Types::Any},
    {"accumulate", callAccumulate, Types::Any},
    {"reduce_precision", callReducePrecision},
    {"is_nan", callIsNan},
    {"constant", callConstant},
    {"iota", callIota},
    {"broadcast_in_dim", callBroadcast},
    {"transpose", callTranspose},
    {"slice", callSlice},
    {"pad", callPad},
    {"concatenate", callConcatenate},
    {"reduce", callReduce},
    {"dot_general", callDotGeneral, Types::Any},
    {"quantize", callQuantize},
    {"sync_gradient", callSyncGradient},
    {"convolution", callConvolution},
    {"convolution_transpose", callConvolutionTranspose},
    {"convolution_kernel", callConvolutionKernel},
    {"reduce_window", callReduceWindow},
    {"select_and_scatter", callSelectAndScatter},
    {"gather", callGather},
    {"scatter_add", callScatterAdd},
    {"embedding", callEmbedding},
    {"embedding_backward", callEmbeddingBackward},
    {"take_along", callTakeAlong},
    {"take_along_backward", callTakeAlongBackward},
    {"top_k", callTopK},
    {"top_k_backward", callTopKBackward},
    {"dispatch", callDispatch},
    {"combine", callCombine},
    {"combine_backward", callCombineBackward},
    {"softmax", callSoftmax},
    {"softmax_backward", callSoftmaxBackward},
    {"layer_norm", callLayerNorm, Types::Any},
    {"layer_norm_backward", callLayerNormBackward, Types::Any},
    {"rms_norm", callRmsNorm, Types::Any},
    {"rms_norm_backward", callRmsNormBackward, Types::Any},
    {"attention", callAttention, Types::Any},
    {"attention_backward", callAttentionBackward, Types::Any},
    {"attention_block", callAttentionBlock},
    {"attention_block_backward", callAttentionBlockBackward},
    {"cross_entropy", callCrossEntropy, Types::Any},
    {"cross_entropy_backward", callCrossEntropyBackward, Types::Any},
    {"dropout", callDropout},
    {"random_key", callRandomKey},
    {"random", callRandom},
    {"pack", callPack},
    {"unpack", callUnpack},
    {"count_nonfinite", callCountNonfinite},
    {"shard_offset", callShardOffset},
    {"mask_padding", callMaskPadding},
    {"local_slice", callLocalSlice},
};
} // namespace

namespace {
/// Adds the conversion of a tensor to another type and memory.
void addConversion(std::vector<Call> &calls, const TensorView &from, const TensorView &to) {
  int64_t n = from.elements();
  if (n > 0)
    calls.push_back(elementCall("Elementwise", from.dtype, "convert", n,
                                ConvertParameters{int32_t(to.dtype), from.data, to.data, n}));
}

} // namespace

Result<Calls> throughFloat(const CallRequest &r, Result<Calls> (*callsOfFloats)(const CallRequest &)) {
  WideRequest wide = withFloatCopies(r.request, kScratchAlignment);
  std::vector<Call> before, after;
  for (const auto &[narrow, copy] : wide.operands)
    addConversion(before, narrow, copy);
  for (const auto &[copy, narrow] : wide.results)
    addConversion(after, copy, narrow);
  auto calls = callsOfFloats({{wide.request}, r.faults, r.gpu});
  if (!calls)
    return calls.error();
  calls->calls.insert(calls->calls.begin(), before.begin(), before.end());
  calls->calls.insert(calls->calls.end(), after.begin(), after.end());
  calls->scratchBytes += wide.copiedBytes;
  return calls;
}

Result<Calls> callsOf(const CallRequest &request) {
  if (!request.request.parts.empty())
    return callJoined(request);
  if (request.request.function)
    return callFused(request);
  const std::string &op = request.request.instruction.op;
  const Row *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &one) { return one.op == op; });
  if (row == std::end(kRows))
    return Error{fmt::format("the GPU has no kernel for '{}'; train on the device cpu, or add a kernel to "
                             "lib/Runtime/Cuda (docs/gpu.md)",
                             op)};
  auto library = cudnnCallsOf(request);
  if (!library)
    return library.error();
  if (*library)
    return std::move(**library);
  bool mixed = anyTensor(request.request, isHalf) &&
               anyTensor(request.request, [](const TensorView &view) { return view.dtype == DType::F32; });
  return mixed && row->types == Types::One ? throughFloat(request, row->calls) : row->calls(request);
}

} // namespace kerf::runtime::cuda
