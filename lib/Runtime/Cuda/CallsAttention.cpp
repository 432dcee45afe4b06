// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of attention and of ring attention (Kernels/Attention.cu).
#include "CallsSort.h"
#include "Kernels/ParametersAttention.h"

#include <algorithm>

namespace kerf::runtime::cuda {

namespace {
constexpr std::string_view kFile = "Attention";

/// The keys that an instruction attends to: all of them, or one block of them, as in a step of ring attention.
enum class KeyScope { All, OneBlock };

/// Returns the number of ranks along the sub-axes that the attribute lists as triples of axis, before and size.
int64_t ranksAlong(const CallRequest &r, const char *attribute) {
  std::vector<int64_t> flat = r.integers(attribute);
  int64_t ranks = 1;
  for (size_t i = 2; i < flat.size(); i += 3)
    ranks *= flat[i];
  return ranks;
}

/// Sets which block of keys this step of ring attention works on, and which of the rank's queries attend to which of
/// the block's keys (docs/operators.md).
void readRingStep(const CallRequest &r, AttentionInputs &in) {
  bool causal = r.flag("causal"), balanced = r.flag("balanced");
  int64_t ranks = ranksAlong(r, "axes"), here = r.position("axes");
  int64_t block = (here - r.integer("step") + ranks) % ranks;
  in.causal = false;
  in.maskColumn = block * in.t;
  if (balanced && block < here)
    in.seen = in.t / 2;
  else if (balanced)
    in.from = in.s / 2;
  else if (causal && block > here)
    in.to = 0;
}

/// Reads the sizes of an attention instruction whose query, key, value and (if `masked`) mask are the operands from
/// number `first` on.
AttentionInputs inputsOf(const CallRequest &r, size_t first, bool masked, KeyScope scope) {
  const TensorView &q = r.operand(first), &k = r.operand(first + 1), &v = r.operand(first + 2);
  AttentionInputs in{};
  in.query = q.data, in.key = k.data, in.value = v.data;
  in.b = q.shape[0], in.s = q.shape[1], in.h = q.shape[2], in.d = q.shape[3];
  in.t = k.shape[1], in.g = k.shape[2], in.e = v.shape[3];
  in.to = in.s, in.seen = in.t;
  in.scale = r.number("scale");
  in.causal = r.flag("causal");
  if (r.attrs().contains("query_axes"))
    in.firstQuery = r.position("query_axes") * in.s;
  if (scope == KeyScope::OneBlock)
    readRingStep(r, in);
  if (masked) {
    const TensorView &mask = r.operand(first + 3);
    int64_t columns = mask.shape[3];
    in.mask = mask.data;
    in.maskIsBool = mask.dtype == DType::Bool;
    in.maskBatch = mask.shape[0] == 1 ? 0 : mask.shape[1] * in.s * columns;
    in.maskHead = mask.shape[1] == 1 ? 0 : in.s * columns;
    in.maskRow = columns;
  }
  return in;
}

/// Adds a call of a kernel whose blocks work on one tile at a time of the `rows` rows of each of `heads` heads.
template <typename P>
void addTileCall(Calls &calls, DType type, std::string_view entry, int64_t heads, int64_t rows, const P &parameters) {
  int64_t tiles = (rows + kAttentionTile - 1) / kAttentionTile;
  addRowCall(calls, kFile, type, entry, heads * tiles, kAttentionThreads, parameters);
}

Calls callsOfForward(const CallRequest &r, const AttentionInputs &in, const void *soFar, const void *lseSoFar) {
  Calls calls;
  addTileCall(calls, r.result().dtype, "attention", in.b * in.h, in.s,
              AttentionParameters{in, soFar, lseSoFar, r.result(0).data, r.result(1).data});
  return calls;
}

/// Returns the calls of a gradient. The output, the log-sum-exp and the gradient of the output are the operands from
/// number `others` on.
Calls callsOfBackward(const CallRequest &r, const AttentionInputs &in, size_t others, const void *dqSoFar) {
  DType type = r.result().dtype;
  int64_t queries = in.b * in.h * in.s, bytes = type == DType::F64 ? 8 : 4; // 16-bit numbers are computed in float
  AttentionBackwardParameters p{};
  p.in = in;
  p.out = r.operand(others).data, p.lse = r.operand(others + 1).data, p.dOut = r.operand(others + 2).data;
  p.dqSoFar = dqSoFar;
  p.dq = r.result(0).data, p.dk = r.result(1).data, p.dv = r.result(2).data;
  Calls calls;
  p.dots = r.scratch(takeScratch(calls, queries * bytes));
  p.factors = r.scratch(takeScratch(calls, queries * bytes));
  constexpr int64_t kThreadsOfQuery = 32;
  addElementCall(calls, kFile, type, "attentionRows", queries * kThreadsOfQuery, p);
  addTileCall(calls, type, "attentionQueries", in.b * in.h, in.s, p);
  addTileCall(calls, type, "attentionKeys", in.b * in.g, in.t, p);
  return calls;
}
} // namespace

Result<Calls> callAttention(const CallRequest &r) {
  return callsOfForward(r, inputsOf(r, 0, r.operands() == 4, KeyScope::All), nullptr, nullptr);
}

Result<Calls> callAttentionBackward(const CallRequest &r) {
  bool masked = r.operands() == 7;
  return callsOfBackward(r, inputsOf(r, 0, masked, KeyScope::All), masked ? 4 : 3, nullptr);
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
