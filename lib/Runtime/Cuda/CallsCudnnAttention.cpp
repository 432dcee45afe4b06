// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients in 16-bit types, computed by cuDNN. A mask becomes numbers that cuDNN adds to the scores.
// Rows of a mask that leave cuDNN without finite scores are computed by Kerf's own kernels afterwards.
#include "CallsAttention.h"
#include "CallsCudnn.h"
#include "CallsRows.h"
#include "Context.h"
#include "CudnnAttention.h"

namespace kerf::runtime::cuda {

namespace {
/// The sizes of an attention instruction, and its 16-bit type.
struct AttentionForm {
  AttentionSizes z;
  CudnnData type;
};

/// Reads an attention instruction; nothing if it has a form that Kerf's own kernels compute. `masked` says whether the
/// operand after the value is a mask, and `lse` is the log-sum-exp.
std::optional<AttentionForm> attentionForm(const CallRequest &r, bool masked, const TensorView &lse) {
  std::optional<CudnnData> type = halfTypeOf(r.operand(0).dtype);
  bool all = type && lse.dtype == DType::F32;
  if (masked && r.operand(3).dtype != DType::Bool && r.operand(3).dtype != DType::F32)
    all = all && r.operand(3).dtype == r.operand(0).dtype;
  for (const auto *views : {&r.request.operands, &r.request.results})
    for (const TensorView &view : *views) {
      bool hasOwnType = &view == &lse || (masked && &view == &r.operand(3));
      int64_t reach = view.rowStride > 0 ? view.shape[0] * view.shape[1] * view.rowStride : view.elements();
      all = all && reach < kMostElements && (hasOwnType || view.dtype == r.operand(0).dtype);
    }
  if (!all)
    return std::nullopt;
  AttentionSizes z = attentionSizesOf(r, 0, masked, kernels::KeyScope::All);
  constexpr int64_t kWidthStep = 8, kMostWidth = 256;
  bool widths = z.d % kWidthStep == 0 && z.e % kWidthStep == 0 && z.d <= kMostWidth && z.e <= kMostWidth;
  bool any = z.b > 0 && z.s > 0 && z.t > 0 && z.h > 0 && z.d > 0 && z.e > 0;
  bool fromFirstKey = !z.causal || (z.firstQuery == 0 && z.s == z.t);
  bool smallBias = biasBytes(z, 1) / int64_t(sizeof(float)) < kMostElements;
  return widths && any && fromFirstKey && smallBias ? std::optional(AttentionForm{z, *type}) : std::nullopt;
}

/// Returns whether cuDNN computes the gradients of an attention that it computes, on a GPU of this compute capability.
/// NVIDIA's front end refuses widths over 128 before Hopper. After Hopper, this graph is not known to give the same
/// bits in every run. The other forms that are refused here can give NaN where all scores of a query are strongly
/// negative: on Hopper, half of a tile of 128 keys is not masked (NVIDIA/cudnn-frontend pull request 628), unless the
/// causal mask excludes it; and with a single query, the gradients of keys and values are wrong (issue 1072).
bool hasGradients(const AttentionSizes &z, int capability) {
  constexpr int kHopper = 90, kBlackwell = 100;
  constexpr int64_t kKeyTile = 128;
  int64_t mostWidth = capability >= kHopper ? 256 : 128;
  bool tailUnmasked = capability >= kHopper && !z.causal && z.t % kKeyTile == kKeyTile / 2;
  return capability < kBlackwell && z.s > 1 && !tailUnmasked && z.d <= mostWidth && z.e <= mostWidth;
}

/// The mask of an instruction in scratch memory: its numbers, for one slice of the batch at a time, and its tops.
struct ScratchMask {
  float *bias;
  MaskTops tops;
};

ScratchMask takeMask(Calls &calls, const CallRequest &r, const AttentionSizes &z, AttentionSlice slice) {
  int64_t heads = z.maskHead == 0 ? 1 : z.h, batches = z.maskBatch == 0 ? 1 : z.b;
  auto take = [&](int64_t bytes) { return static_cast<float *>(r.scratch(takeScratch(calls, bytes))); };
  float *bias = take(biasBytes(z, slice.batches)), *tops = take(batches * heads * z.s * int64_t(sizeof(float)));
  return {bias, {tops, z.maskBatch == 0 ? 0 : heads * z.s, z.maskHead == 0 ? 0 : z.s}};
}

/// Adds the call that turns the mask of a slice of the batch into numbers. All slices share the mask of one batch
/// entry.
void addBias(Calls &calls, const CallRequest &r, const AttentionSizes &z, AttentionSlice slice, const ScratchMask &mask,
             int64_t number) {
  if (z.maskBatch == 0 && number > 0)
    return;
  const TensorView &view = r.operand(3);
  int64_t rows = biasBytes(z, slice.batches) / biasColumns(z) / int64_t(sizeof(float)), first = number * rows;
  auto *tops = const_cast<float *>(mask.tops.data) + first;
  AttentionBiasParameters p{static_cast<const std::byte *>(view.data) + first * z.t * bytesOf(view.dtype),
                            mask.bias,
                            tops,
                            rows,
                            z.s,
                            z.t,
                            biasColumns(z),
                            z.causal,
                            z.maskIsBool,
                            view.dtype == DType::F32};
  calls.calls.push_back(warpCall("AttentionMask", r.operand(0).dtype, "attentionBias", rows, p));
}

/// Returns a tensor [batch, rows, heads, width] of memory, of whose heads `headsOfGroup` belong to a key/value head.
SlicedTensor slicedTensor(int number, const TensorView &view, const AttentionSizes &z, AttentionSlice slice,
                          int64_t headsOfGroup) {
  int64_t bytes = bytesOf(view.dtype);
  return {number, view.data, view.shape[1] * rowStrideOf(view) * bytes * slice.batches,
          view.shape[3] * headsOfGroup * slice.groups * bytes};
}

/// Returns a float32 tensor of memory with one number for each query.
SlicedTensor slicedSums(int number, void *data, const AttentionSizes &z, AttentionSlice slice) {
  int64_t headBytes = z.s * int64_t(sizeof(float));
  return {number, data, headBytes * z.h * slice.batches, headBytes * (z.h / z.g) * slice.groups};
}

/// Adds the bias to the tensors of a graph, and the calls that compute it.
void addMask(SlicedGraph &sliced, const CallRequest &r, const AttentionSizes &z, AttentionSlice slice,
             const ScratchMask &mask, int number) {
  int64_t headBytes = z.s * biasColumns(z) * int64_t(sizeof(float));
  sliced.tensors.push_back({number, mask.bias, 0, z.maskHead == 0 ? 0 : headBytes * (z.h / z.g) * slice.groups});
  sliced.prepare = [&r, z, slice, mask](Calls &calls, int64_t batchSlice) {
    addBias(calls, r, z, slice, mask, batchSlice);
  };
}
} // namespace

CudnnCalls attentionCalls(const CallRequest &r, int64_t mostBytes) {
  bool masked = r.operands() == 4;
  auto form = attentionForm(r, masked, r.result(1));
  if (!form)
    return std::optional<Calls>();
  const AttentionSizes &z = form->z;
  AttentionSlice slice = forwardSlice(z, mostBytes);
  int64_t sharing = z.h / z.g;
  auto all = std::make_shared<const ForwardGraph>(
      forwardGraph(z, stridesOf(r.operand(0), r.operand(1), r.operand(2)), slice, form->type));
  SlicedGraph sliced{
      {all, &all->graph},
      {slicedTensor(all->query, r.operand(0), z, slice, sharing), slicedTensor(all->key, r.operand(1), z, slice, 1),
       slicedTensor(all->value, r.operand(2), z, slice, 1), slicedTensor(all->out, r.result(0), z, slice, sharing),
       slicedSums(all->lse, r.result(1).data, z, slice)},
      z.b / slice.batches};
  if (!masked)
    return withGraph(r, {}, sliced, kForwardWorkspace);
  Calls calls;
  ScratchMask mask = takeMask(calls, r, z, slice);
  addMask(sliced, r, z, slice, mask, all->bias);
  CudnnCalls made = withGraph(r, std::move(calls), sliced, kForwardWorkspace);
  if (made && *made)
    addOwnRows(**made, r, mask.tops);
  return made;
}

namespace {
/// One way to compute the gradients of an instruction, before cuDNN is asked for its plan.
struct GradientsWay {
  Calls calls; // with the scratch memory that is taken so far
  SlicedGraph sliced;
  int64_t workspaceBytes;
  std::optional<ScratchMask> mask;

  int64_t scratchBytes() const {
    Calls all;
    all.scratchBytes = calls.scratchBytes;
    takeScratch(all, workspaceBytes);
    return all.scratchBytes;
  }
};

GradientsWay gradientsWay(const CallRequest &r, const AttentionForm &form, int64_t mostBytes, QuerySums querySums) {
  bool masked = r.operands() == 7;
  size_t others = masked ? 4 : 3; // the output, the log-sum-exp and the gradient of the output
  const TensorView &lse = r.operand(others + 1);
  const AttentionSizes &z = form.z;
  AttentionSlice slice = backwardSlice(z, mostBytes, querySums);
  int64_t sharing = z.h / z.g, sumBytes = z.b * z.h * z.s * int64_t(sizeof(float));
  auto all = std::make_shared<const BackwardGraph>(backwardGraph(z, stridesOf(r.operand(0), r.operand(1), r.operand(2)),
                                                                 stridesOf(r.result(0), r.result(1), r.result(2)),
                                                                 slice, form.type, querySums));
  GradientsWay way;
  way.workspaceBytes = backwardWorkspace(z, slice, querySums);
  void *dots = r.scratch(takeScratch(way.calls, sumBytes));
  void *sums = masked ? r.scratch(takeScratch(way.calls, sumBytes)) : lse.data;
  way.sliced = {{all, &all->graph},
                {slicedTensor(all->query, r.operand(0), z, slice, sharing),
                 slicedTensor(all->key, r.operand(1), z, slice, 1), slicedTensor(all->value, r.operand(2), z, slice, 1),
                 slicedTensor(all->out, r.operand(others), z, slice, sharing), slicedSums(all->lse, sums, z, slice),
                 slicedTensor(all->dOut, r.operand(others + 2), z, slice, sharing),
                 slicedTensor(all->dQuery, r.result(0), z, slice, sharing),
                 slicedTensor(all->dKey, r.result(1), z, slice, 1), slicedTensor(all->dValue, r.result(2), z, slice, 1),
                 slicedSums(all->dots, dots, z, slice)},
                z.b / slice.batches,
                z.g / slice.groups};
  if (all->sums >= 0) // the slices share this memory
    way.sliced.tensors.push_back({all->sums, r.scratch(takeScratch(way.calls, querySumsBytes(z, slice, querySums)))});
  if (!masked)
    return way;
  way.mask = takeMask(way.calls, r, z, slice);
  addMask(way.sliced, r, z, slice, *way.mask, all->bias);
  AttentionSumsParameters p{
      static_cast<const float *>(lse.data), static_cast<float *>(sums), slice.batches, z.h, z.s, way.mask->tops};
  way.sliced.prepare = [&r, p, addsBias = way.sliced.prepare](Calls &calls, int64_t batchSlice) {
    addsBias(calls, batchSlice);
    AttentionSumsParameters own = p;
    int64_t batch = batchSlice * p.b, queries = p.b * p.h * p.s;
    own.lse += batchSlice * queries, own.copy += batchSlice * queries, own.tops.data += batch * p.tops.batch;
    addElementCall(calls, "AttentionMask", r.operand(0).dtype, "attentionSums", queries, own);
  };
  return way;
}
} // namespace

CudnnCalls attentionBackwardCalls(const CallRequest &r, int64_t mostBytes) {
  bool masked = r.operands() == 7;
  auto form = attentionForm(r, masked, r.operand(masked ? 5 : 4));
  if (!form || !hasGradients(form->z, r.gpu->capability()))
    return std::optional<Calls>();
  GradientsWay unordered = gradientsWay(r, *form, mostBytes, QuerySums::Unordered),
               ordered = gradientsWay(r, *form, mostBytes, QuerySums::Ordered);
  // The memory is that of the larger way, so that it does not depend on --deterministic.
  int64_t scratchBytes = std::max(unordered.scratchBytes(), ordered.scratchBytes());
  for (GradientsWay *way : {&unordered, &ordered}) {
    if (way == &unordered && r.gpu->products.deterministic)
      continue;
    CudnnCalls made = withGraph(r, std::move(way->calls), way->sliced, way->workspaceBytes);
    if (!made)
      return made.error();
    if (!*made)
      continue;
    (*made)->scratchBytes = scratchBytes;
    if (masked)
      addOwnRowsBackward(**made, r, way->mask->tops);
    return made;
  }
  return std::optional<Calls>();
}

} // namespace kerf::runtime::cuda
