// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of attention and of ring attention (Kernels/Attention.cu).
#include "CallsAttention.h"
#include "CallsSort.h"

namespace kerf::runtime::cuda {

AttentionSizes attentionSizesOf(const CallRequest &r, size_t first, bool masked, kernels::KeyScope scope) {
  BindRequest host = hostRequest(r.request, nullptr);
  if (masked && host.operands[first + 3].dtype != DType::Bool)
    host.operands[first + 3].dtype = r.operand(first).dtype; // the type that the check asks for
  kernels::Checker check(host);
  return *kernels::attentionSizes(check, host, first, masked, scope);
}

namespace {
using kernels::KeyScope;
constexpr std::string_view kAttentionFile = "Attention";

/// Reads the operands and sizes of an attention instruction whose query, key, value and (if `masked`) mask are the
/// operands from number `first` on.
AttentionInputs inputsOf(const CallRequest &r, size_t first, bool masked, KeyScope scope) {
  const TensorView &query = r.operand(first), &key = r.operand(first + 1), &value = r.operand(first + 2);
  return {attentionSizesOf(r, first, masked, scope),   query.data, key.data, value.data, stridesOf(query, key, value),
          masked ? r.operand(first + 3).data : nullptr};
}
/// Reads the inputs of an attention instruction, whose log-sum-exp and mask may be float32 beside 16-bit tensors.
AttentionInputs mixedInputsOf(const CallRequest &r, bool masked, const TensorView &lse) {
  AttentionInputs in = inputsOf(r, 0, masked, KeyScope::All);
  bool isHalf = bytesOf(r.operand(0).dtype) == 2;
  in.floatSums = isHalf && lse.dtype == DType::F32;
  in.floatMask = isHalf && masked && r.operand(3).dtype == DType::F32;
  return in;
}

/// Adds a call of a kernel whose blocks work on one tile at a time of the `rows` rows of each of `heads` heads.
template <typename P>
void addTileCall(Calls &calls, DType type, std::string_view entry, int64_t heads, int64_t rows, const P &parameters) {
  int64_t tiles = (rows + kAttentionTile - 1) / kAttentionTile;
  addRowCall(calls, kAttentionFile, type, entry, heads * tiles, kAttentionThreads, parameters);
}

void addForward(Calls &calls, const CallRequest &r, const AttentionInputs &in, const void *soFar,
                const void *lseSoFar) {
  addTileCall(calls, r.result().dtype, "attention", in.b * in.h, in.s,
              AttentionParameters{in, soFar, lseSoFar, r.result(0).data, r.result(1).data});
}

Calls callsOfForward(const CallRequest &r, const AttentionInputs &in, const void *soFar, const void *lseSoFar) {
  Calls calls;
  addForward(calls, r, in, soFar, lseSoFar);
  return calls;
}

/// Adds the calls of a gradient. The output, the log-sum-exp and the gradient of the output are the operands from
/// number `others` on.
void addBackward(Calls &calls, const CallRequest &r, const AttentionInputs &in, size_t others, const void *dqSoFar) {
  DType type = r.result().dtype;
  int64_t queries = in.b * in.h * in.s, bytes = type == DType::F64 ? 8 : 4; // 16-bit numbers are computed in float
  AttentionBackwardParameters p{};
  p.in = in;
  p.out = r.operand(others).data, p.lse = r.operand(others + 1).data, p.dOut = r.operand(others + 2).data;
  p.dqSoFar = dqSoFar;
  p.dq = r.result(0).data, p.dk = r.result(1).data, p.dv = r.result(2).data;
  p.strides = stridesOf(r.result(0), r.result(1), r.result(2));
  p.dots = r.scratch(takeScratch(calls, queries * bytes));
  p.factors = r.scratch(takeScratch(calls, queries * bytes));
  constexpr int64_t kThreadsOfQuery = 32;
  addElementCall(calls, kAttentionFile, type, "attentionRows", queries * kThreadsOfQuery, p);
  addTileCall(calls, type, "attentionQueries", in.b * in.h, in.s, p);
  addTileCall(calls, type, "attentionKeys", in.b * in.g, in.t, p);
}

Calls callsOfBackward(const CallRequest &r, const AttentionInputs &in, size_t others, const void *dqSoFar) {
  Calls calls;
  addBackward(calls, r, in, others, dqSoFar);
  return calls;
}

/// Reads an instruction with a mask of which only the rows of isOwnRow are computed.
AttentionInputs ownRowsOf(const CallRequest &r, const MaskTops &tops) {
  AttentionInputs in = inputsOf(r, 0, true, KeyScope::All);
  in.tops = tops;
  in.floatSums = true;
  in.floatMask = r.operand(3).dtype == DType::F32;
  return in;
}
} // namespace

void addOwnRows(Calls &calls, const CallRequest &r, const MaskTops &tops) {
  addForward(calls, r, ownRowsOf(r, tops), nullptr, nullptr);
}

void addOwnRowsBackward(Calls &calls, const CallRequest &r, const MaskTops &tops) {
  addBackward(calls, r, ownRowsOf(r, tops), 4, nullptr);
}

Result<Calls> callAttention(const CallRequest &r) {
  return callsOfForward(r, mixedInputsOf(r, r.operands() == 4, r.result(1)), nullptr, nullptr);
}

Result<Calls> callAttentionBackward(const CallRequest &r) {
  bool masked = r.operands() == 7;
  size_t others = masked ? 4 : 3;
  return callsOfBackward(r, mixedInputsOf(r, masked, r.operand(others + 1)), others, nullptr);
}

Result<Calls> callAttentionBlock(const CallRequest &r) {
  AttentionInputs in = inputsOf(r, 2, r.operands() == 6, KeyScope::OneBlock);
  return callsOfForward(r, in, r.operand(0).data, r.operand(1).data);
}

Result<Calls> callAttentionBlockBackward(const CallRequest &r) {
  bool masked = r.operands() == 8;
  return callsOfBackward(r, inputsOf(r, 1, masked, KeyScope::OneBlock), masked ? 5 : 4, r.operand(0).data);
}

} // namespace kerf::runtime::cuda
