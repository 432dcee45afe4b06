// SPDX-License-Identifier: Apache-2.0
// The table from the names of ops to the functions that compose their calls.
#include "Calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace kerf::runtime::ascend {

namespace {
/// How an op's function takes 16-bit tensors: together with others of the same type only, in any mixture, or only as
/// float32 copies.
enum class Halves { Alone, Mixed, Never };

struct Row {
  std::string_view op;
  void (*build)(Builder &);
  Halves halves = Halves::Alone;
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
    {"stop_gradient", callSyncGradient},
    {"sync_gradient", callSyncGradient},
    {"gelu", callGelu},
    {"gelu_backward", callGeluBackward},
    {"add", callBinary},
    {"subtract", callBinary},
    {"multiply", callBinary},
    {"divide", callBinary},
    {"maximum", callBinary},
    {"minimum", callBinary},
    {"power", callBinary},
    {"and", callBinary},
    {"or", callBinary},
    {"compare", callCompare},
    {"select", callSelect},
    {"convert", callConvert, Halves::Mixed},
    {"accumulate", callAccumulate, Halves::Mixed},
    {"reduce_precision", callReducePrecision},
    {"is_nan", callIsNan},
    {"constant", callConstant},
    {"iota", callIota},
    {"broadcast_in_dim", callBroadcast},
    {"transpose", callTranspose},
    {"slice", callSlice},
    {"pad", callPad},
    {"concatenate", callConcatenate},
    {"shard_offset", callShardOffset},
    {"mask_padding", callMaskPadding},
    {"local_slice", callLocalSlice},
    {"reduce", callReduce, Halves::Mixed},
    {"count_nonfinite", callCountNonfinite},
    {"dot_general", callDotGeneral, Halves::Mixed},
    {"softmax", callSoftmax},
    {"softmax_backward", callSoftmaxBackward},
    {"layer_norm", callLayerNorm, Halves::Mixed},
    {"layer_norm_backward", callLayerNormBackward, Halves::Mixed},
    {"rms_norm", callRmsNorm, Halves::Mixed},
    {"rms_norm_backward", callRmsNormBackward, Halves::Mixed},
    {"cross_entropy", callCrossEntropy, Halves::Mixed},
    {"cross_entropy_backward", callCrossEntropyBackward, Halves::Mixed},
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
    {"attention", callAttention, Halves::Mixed},
    {"attention_backward", callAttentionBackward, Halves::Mixed},
    {"attention_block", callAttentionBlock, Halves::Never},
    {"attention_block_backward", callAttentionBlockBackward, Halves::Never},
    {"dropout", callDropout, Halves::Never},
    {"random_key", callRandomKey},
    {"random", callRandom},
    {"pack", callPack},
    {"unpack", callUnpack},
    {"convolution", callConvolution},
    {"convolution_transpose", callConvolutionTranspose},
    {"convolution_kernel", callConvolutionKernel},
    {"reduce_window", callReduceWindow},
    {"select_and_scatter", callSelectAndScatter},
};

/// Builds the calls of an instruction on float32 copies of its 16-bit tensors, as the CPU runs it.
Result<Calls> throughFloat(const KernelRequest &request, const Target &target, const Row &row) {
  Builder outer(request, target);
  WideRequest wide = withFloatCopies(request, kTensorAlignment);
  for (const auto &[narrow, copy] : wide.operands)
    outer.cast(viewOf(narrow), viewOf(copy));
  Builder inner(wide.request, target);
  row.build(inner);
  auto made = inner.finish();
  if (!made)
    return made.error();
  for (Call &call : made->calls)
    outer.add(std::move(call));
  for (const auto &[copy, narrow] : wide.results)
    outer.cast(viewOf(copy), viewOf(narrow));
  auto all = outer.finish();
  if (!all)
    return all.error();
  all->scratchBytes = wide.copiedBytes + made->scratchBytes;
  all->check = std::move(made->check);
  all->keep = std::move(made->keep);
  return all;
}
} // namespace

Result<Calls> callsOf(const KernelRequest &request, const Target &target) {
  const std::string &op = request.instruction.op;
  const Row *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &one) { return one.op == op; });
  if (row == std::end(kRows))
    return Error{fmt::format("CANN has no operator for '{}', and Kerf composes none of others (docs/ascend.md); train "
                             "on the device cpu, or leave the op out of the model",
                             op)};
  bool isMixed = anyTensor(request, [](const TensorView &view) { return view.dtype == DType::F32; });
  if (anyTensor(request, isHalf) && (row->halves == Halves::Never || (row->halves == Halves::Alone && isMixed)))
    return throughFloat(request, target, *row);
  Builder b(request, target);
  row->build(b);
  return b.finish();
}

} // namespace kerf::runtime::ascend
