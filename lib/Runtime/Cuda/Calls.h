// SPDX-License-Identifier: Apache-2.0
// Instructions as calls of the GPU kernels in Kernels/. The instruction was checked by the CPU's plan function of the
// same op (checkedScratchBytes), so these functions read attributes and shapes without further checks.
#pragma once

#include "../Accelerator/Requests.h"
#include "Kernels/Parameters.h"
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

namespace kerf::runtime::cuda {

class Context;
class CudaStream;

/// One launch of a kernel: the module (file name in Kernels/ and element type), the entry, the grid, and the bytes of
/// the struct of parameters.
struct KernelCall {
  std::string_view file;                  // "Elementwise" for Kernels/Elementwise.cu
  DType type = DType::F32;                // KERF_TYPE of the module
  std::string_view entry;                 // name of the kernel in the file
  int64_t blocks = 1;                     // number of blocks, below 2^31
  int64_t threads = 256;                  // threads of a block: a multiple of 32, at most 1024
  std::vector<std::byte> parameters = {}; // the struct of Parameters.h
};
/// A call of a function of one of NVIDIA's libraries that enqueues work on a stream.
using LibraryCall = std::function<Status(CudaStream &stream)>;
/// One thing that an instruction enqueues.
using Call = std::variant<KernelCall, LibraryCall>;
/// Most blocks of a launch. Kernels with more work than threads take several elements or rows each.
inline constexpr int64_t kMostBlocks = 4096;
/// Bytes to which the parts of an instruction's scratch memory are aligned: those of a memory transaction, and more
/// than any element needs.
inline constexpr int64_t kScratchAlignment = 256;

inline int64_t quotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Returns `bytes` rounded up to the alignment of scratch memory.
inline int64_t scratchPart(int64_t bytes) { return quotientUp(bytes, kScratchAlignment) * kScratchAlignment; }

/// Turns the record of a fault into the message that the CPU's kernel gives.
using FaultText = std::function<Error(const FaultRecord &)>;

/// An instruction as calls that run one after the other on one stream.
struct Calls {
  std::vector<Call> calls;       // empty where the instruction has nothing to do
  int64_t scratchBytes = 0;      // temporary memory that the calls use
  FaultText faultText = nullptr; // null for calls that find no faults
  /// Bytes that the first call, a KernelCall, reads and that are copied to the device once. The address of the copy is
  /// written at byte `constantAt` of its parameters.
  std::vector<std::byte> constant;
  size_t constantAt = 0;
};

/// The argument of a function of kRows: the request, the place to which its kernels report faults, and the GPU.
struct CallRequest : RequestReader {
  FaultPlace faults;
  const std::shared_ptr<Context> &gpu;

  const TensorView &operand(size_t i) const { return request.operands[i]; }
  const TensorView &result(size_t i = 0) const { return request.results[i]; }
  /// Returns the address `offset` bytes into the scratch memory; null while only its size is asked for.
  void *scratch(int64_t offset) const {
    return request.scratch ? static_cast<std::byte *>(request.scratch) + offset : nullptr;
  }
};

/// Makes a call whose threads share `work` elements, one thread for each of them up to kMostBlocks blocks.
template <typename P>
KernelCall elementCall(std::string_view file, DType type, std::string_view entry, int64_t work, const P &parameters) {
  KernelCall call{file, type, entry};
  call.blocks = std::clamp<int64_t>((work + call.threads - 1) / call.threads, 1, kMostBlocks);
  call.parameters.resize(sizeof(P));
  std::memcpy(call.parameters.data(), &parameters, sizeof(P));
  return call;
}
/// Makes a call in which one block at a time works on one of `rows` rows of `width` elements.
template <typename P>
KernelCall rowCall(std::string_view file, DType type, std::string_view entry, int64_t rows, int64_t width,
                   const P &parameters) {
  KernelCall call{file, type, entry};
  call.blocks = std::clamp<int64_t>(rows, 1, kMostBlocks);
  call.threads = std::clamp<int64_t>((width + 31) / 32 * 32, 32, 512);
  call.parameters.resize(sizeof(P));
  std::memcpy(call.parameters.data(), &parameters, sizeof(P));
  return call;
}

/// Returns the calls of an instruction. Fails where the GPU has no form of it, and names what it lacks.
Result<Calls> callsOf(const CallRequest &request);

/// Returns the calls of an instruction on float32 copies of its 16-bit tensors, as the CPU runs it. Kernels take
/// tensors of one floating type; programs may have 16-bit operands and float32 results.
Result<Calls> throughFloat(const CallRequest &r, Result<Calls> (*callsOfFloats)(const CallRequest &));
/// Returns the calls of an instruction that cuDNN computes, or nothing for another instruction. Fails where cuDNN has
/// to compute it and is missing, too old, or fails.
Result<std::optional<Calls>> cudnnCallsOf(const CallRequest &request);
/// Returns the calls of an instruction that calls a function of the program for which the package has code.
Result<Calls> callFused(const CallRequest &r);
/// Returns the calls of a product and the instructions that are joined with it.
Result<Calls> callJoined(const CallRequest &r);

// The functions of the families, one row each in kRows (Calls.cpp).
Result<Calls> callUnary(const CallRequest &r);
Result<Calls> callBinary(const CallRequest &r);
Result<Calls> callCompare(const CallRequest &r);
Result<Calls> callSelect(const CallRequest &r);
Result<Calls> callConvert(const CallRequest &r);
Result<Calls> callAccumulate(const CallRequest &r);
Result<Calls> callReducePrecision(const CallRequest &r);
Result<Calls> callIsNan(const CallRequest &r);
Result<Calls> callConstant(const CallRequest &r);
Result<Calls> callIota(const CallRequest &r);
Result<Calls> callBroadcast(const CallRequest &r);
Result<Calls> callTranspose(const CallRequest &r);
Result<Calls> callSlice(const CallRequest &r);
Result<Calls> callPad(const CallRequest &r);
Result<Calls> callConcatenate(const CallRequest &r);
Result<Calls> callReduce(const CallRequest &r);
Result<Calls> callDotGeneral(const CallRequest &r);
Result<Calls> callSyncGradient(const CallRequest &r);
Result<Calls> callQuantize(const CallRequest &r); // CallsQuantize.cpp
// Families of CallsNorm.cpp (norms) and CallsLoss.cpp (softmax, losses).
Result<Calls> callSoftmax(const CallRequest &r);
Result<Calls> callSoftmaxBackward(const CallRequest &r);
Result<Calls> callLayerNorm(const CallRequest &r);
Result<Calls> callLayerNormBackward(const CallRequest &r);
Result<Calls> callRmsNorm(const CallRequest &r);
Result<Calls> callRmsNormBackward(const CallRequest &r);
Result<Calls> callCrossEntropy(const CallRequest &r);
Result<Calls> callCrossEntropyBackward(const CallRequest &r);
Result<Calls> callCountNonfinite(const CallRequest &r);
// CallsAttention.cpp
Result<Calls> callAttention(const CallRequest &r);
Result<Calls> callAttentionBackward(const CallRequest &r);
Result<Calls> callAttentionBlock(const CallRequest &r);
Result<Calls> callAttentionBlockBackward(const CallRequest &r);
// CallsLookup.cpp: lookups, routing, and ops that depend on the rank.
Result<Calls> callGather(const CallRequest &r);
Result<Calls> callScatterAdd(const CallRequest &r);
Result<Calls> callEmbedding(const CallRequest &r);
Result<Calls> callEmbeddingBackward(const CallRequest &r);
Result<Calls> callTakeAlong(const CallRequest &r);
Result<Calls> callTakeAlongBackward(const CallRequest &r);
Result<Calls> callTopK(const CallRequest &r);
Result<Calls> callTopKBackward(const CallRequest &r);
Result<Calls> callDispatch(const CallRequest &r);
Result<Calls> callCombine(const CallRequest &r);
Result<Calls> callCombineBackward(const CallRequest &r);
Result<Calls> callDropout(const CallRequest &r);
Result<Calls> callRandomKey(const CallRequest &r);
Result<Calls> callRandom(const CallRequest &r);
Result<Calls> callPack(const CallRequest &r);
Result<Calls> callUnpack(const CallRequest &r);
Result<Calls> callShardOffset(const CallRequest &r);
Result<Calls> callMaskPadding(const CallRequest &r);
Result<Calls> callLocalSlice(const CallRequest &r);
// CallsWindow.cpp: convolutions and poolings.
Result<Calls> callConvolution(const CallRequest &r);
Result<Calls> callConvolutionTranspose(const CallRequest &r);
Result<Calls> callConvolutionKernel(const CallRequest &r);
Result<Calls> callReduceWindow(const CallRequest &r);
Result<Calls> callSelectAndScatter(const CallRequest &r);

} // namespace kerf::runtime::cuda
