// SPDX-License-Identifier: Apache-2.0
// The table from names of ops to plan functions. An op that does not itself support 16-bit floats runs on float32
// copies in scratch memory.
#include "Families.h"
#include "GemmOfBf16.h"
#include "PickLargest.h"
#include "TakeAlong.h"
#include "ThroughFloat.h"

#include <algorithm>
#include <iterator>

namespace kerf::runtime {

using namespace kernels;

namespace {
bool overwritesNothing(int, int) { return false; }
bool overwritesAny(int, int) { return true; }
bool overwritesFirst(int operand, int) { return operand == 0; }
bool overwritesThird(int operand, int) { return operand == 2; }
bool overwritesFirstByFirst(int operand, int result) { return operand == 0 && result == 0; }
/// Result number i may be written over operand number i, for ops that update their first operands.
bool overwritesItself(int operand, int result) { return operand == result; }

/// How an op handles bf16 and f16.
enum class Half {
  AsIs,    // by itself; most of these ops only move or convert elements
  AsFloat, // as float32
  Bf16,    // bf16 by itself where its plan function takes the tensors; otherwise as float32
  Products // as Bf16, on processors with instructions for products of bf16 numbers (GemmOfBf16.h)
};

/// An op's row in the table.
struct Row {
  std::string_view op;
  PlanFunction plan;
  bool (*overwrites)(int operand, int result);
  Half half;
};

constexpr Row kRows[] = {
    {"convert", planConvert, overwritesAny, Half::AsIs},
    {"accumulate", planAccumulate, overwritesAny, Half::AsIs},
    {"reduce_precision", planReducePrecision, overwritesAny, Half::AsFloat},
    {"is_nan", planIsNan, overwritesAny, Half::AsFloat},
    {"gelu", planGelu, overwritesAny, Half::AsFloat},
    {"gelu_backward", planGeluBackward, overwritesAny, Half::AsFloat},
    {"add", planBinary, overwritesAny, Half::AsFloat},
    {"subtract", planBinary, overwritesAny, Half::AsFloat},
    {"multiply", planBinary, overwritesAny, Half::AsFloat},
    {"divide", planBinary, overwritesAny, Half::AsFloat},
    {"maximum", planBinary, overwritesAny, Half::AsFloat},
    {"minimum", planBinary, overwritesAny, Half::AsFloat},
    {"power", planBinary, overwritesAny, Half::AsFloat},
    {"and", planBinary, overwritesAny, Half::AsFloat},
    {"or", planBinary, overwritesAny, Half::AsFloat},
    {"compare", planCompare, overwritesAny, Half::AsFloat},
    {"select", planSelect, overwritesAny, Half::AsFloat},
    {"constant", planConstant, overwritesNothing, Half::AsFloat},
    {"iota", planIota, overwritesNothing, Half::AsFloat},
    {"broadcast_in_dim", planBroadcastInDim, overwritesNothing, Half::AsIs},
    {"transpose", planTranspose, overwritesNothing, Half::AsIs},
    {"slice", planSlice, overwritesNothing, Half::AsIs},
    {"pad", planPad, overwritesNothing, Half::AsIs},
    {"concatenate", planConcatenate, overwritesNothing, Half::AsIs},
    {"reduce", planReduce, overwritesNothing, Half::AsFloat},
    {"dot_general", planDotGeneral, overwritesThird, Half::Products},
    {"quantize", planQuantize, overwritesNothing, Half::AsFloat},
    {"convolution", planConvolution, overwritesNothing, Half::AsIs},
    {"convolution_transpose", planConvolutionTranspose, overwritesNothing, Half::AsIs},
    {"convolution_kernel", planConvolutionKernel, overwritesNothing, Half::AsIs},
    {"reduce_window", planReduceWindow, overwritesNothing, Half::AsFloat},
    {"select_and_scatter", planSelectAndScatter, overwritesNothing, Half::AsFloat},
    {"gather", planGather, overwritesNothing, Half::AsIs},
    {"scatter_add", planScatterAdd, overwritesNothing, Half::AsFloat},
    {"embedding", planEmbedding, overwritesNothing, Half::AsFloat},
    {"embedding_backward", planEmbeddingBackward, overwritesNothing, Half::AsFloat},
    {"take_along", planTakeAlong, overwritesNothing, Half::AsIs},
    {"take_along_backward", planTakeAlongBackward, overwritesNothing, Half::AsFloat},
    {"top_k", planTopK, overwritesNothing, Half::AsFloat},
    {"top_k_backward", planTopKBackward, overwritesNothing, Half::AsFloat},
    {"dispatch", planDispatch, overwritesNothing, Half::AsFloat},
    {"combine", planCombine, overwritesNothing, Half::AsFloat},
    {"combine_backward", planCombineBackward, overwritesNothing, Half::AsFloat},
    {"softmax", planSoftmax, overwritesNothing, Half::AsFloat},
    {"softmax_backward", planSoftmaxBackward, overwritesNothing, Half::AsFloat},
    {"layer_norm", planLayerNorm, overwritesNothing, Half::AsFloat},
    {"layer_norm_backward", planLayerNormBackward, overwritesNothing, Half::AsFloat},
    {"rms_norm", planRmsNorm, overwritesNothing, Half::AsFloat},
    {"rms_norm_backward", planRmsNormBackward, overwritesNothing, Half::AsFloat},
    {"attention", planAttention, overwritesNothing, Half::Products},
    {"attention_backward", planAttentionBackward, overwritesNothing, Half::Products},
    {"attention_block", planAttentionBlock, overwritesItself, Half::AsFloat},
    {"attention_block_backward", planAttentionBlockBackward, overwritesFirstByFirst, Half::Products},
    {"cross_entropy", planCrossEntropy, overwritesNothing, Half::Bf16},
    {"cross_entropy_backward", planCrossEntropyBackward, overwritesFirst, Half::Bf16},
    {"dropout", planDropout, overwritesFirst, Half::AsFloat},
    {"random_key", planRandomKey, overwritesNothing, Half::AsIs},
    {"random", planRandom, overwritesAny, Half::AsIs},
    {"pack", planPack, overwritesNothing, Half::AsIs},
    {"unpack", planUnpack, overwritesNothing, Half::AsIs},
    {"sync_gradient", planSyncGradient, overwritesFirst, Half::AsIs},
    {"count_nonfinite", planCountNonfinite, overwritesNothing, Half::AsFloat},
    {"shard_offset", planShardOffset, overwritesNothing, Half::AsIs},
    {"mask_padding", planMaskPadding, overwritesFirst, Half::AsFloat},
    {"local_slice", planLocalSlice, overwritesNothing, Half::AsIs},
};

/// The row of all unary ops; Unary.cpp has their list.
constexpr Row kUnaryRow{"", planUnary, overwritesAny, Half::AsFloat};

const Row *findRow(std::string_view op) {
  if (isUnary(op))
    return &kUnaryRow;
  const Row *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &r) { return r.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}

/// Plans an instruction with 16-bit tensors whose op does not move them as they are.
Result<PlannedKernel> planOfHalves(const BindRequest &request, const Row &row) {
  Result<PlannedKernel> asFloat = planThroughFloat(request, row.plan);
  if (row.half == Half::AsFloat || !asFloat)
    return asFloat;
  Result<PlannedKernel> ofBf16 = row.plan(request);
  if (!ofBf16)
    return asFloat;
  if (row.half == Half::Bf16)
    return ofBf16;
  // A package may be compiled on another machine than the one that runs it, so scratch memory is large enough for both.
  const int64_t bytes = std::max(asFloat->scratchBytes, ofBf16->scratchBytes);
  return PlannedKernel{multipliesBf16() ? std::move(ofBf16->kernel) : std::move(asFloat->kernel), bytes};
}

Result<PlannedKernel> planOf(const BindRequest &request) {
  if (request.native)
    return planNative(request);
  const Row *row = findRow(request.instruction.op);
  if (!row)
    return Error{fmt::format("there is no kernel for the op '{}'; compile the package again with this version of Kerf",
                             request.instruction.op)};
  try {
    return row->half != Half::AsIs && hasHalf(request) ? planOfHalves(request, *row) : row->plan(request);
  } catch (const nlohmann::json::exception &e) { // a number does not fit its C++ type
    return Error{
        fmt::format("{}: malformed attributes: {}; compile the package again", request.instruction.op, e.what())};
  }
}
} // namespace

Result<Kernel> bindKernel(const BindRequest &request) {
  Result<PlannedKernel> planned = planOf(request);
  if (!planned)
    return planned.error();
  return std::move(planned->kernel);
}

Result<int64_t> scratchBytes(const BindRequest &request) {
  Result<PlannedKernel> planned = planOf(request);
  if (!planned)
    return planned.error();
  return planned->scratchBytes;
}

const void *routine(std::string_view name) {
  if (name == "top_k.f32")
    return reinterpret_cast<const void *>(&pickLargestOfRow);
  size_t dot = name.rfind('.');
  auto dtype = dot == std::string_view::npos ? std::nullopt : parseDType(name.substr(dot + 1));
  if (dtype != DType::F32 && dtype != DType::F64)
    return nullptr;
  std::string_view op = name.substr(0, dot);
  void *unary = unaryRoutine(op, *dtype);
  return unary ? unary : binaryRoutine(op, *dtype);
}

bool mayOverwrite(const package::Instruction &instruction, int operand, int result) {
  const Row *row = findRow(instruction.op);
  return row && row->overwrites(operand, result);
}

} // namespace kerf::runtime
