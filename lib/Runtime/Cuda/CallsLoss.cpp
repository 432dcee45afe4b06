// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of softmax and losses (Kernels/Loss.cu).
#include "CallsRows.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr std::string_view kLossFile = "Loss";

/// Sizes of a tensor seen as (outer, size, inner), where `size` is the dimension of a softmax.
struct SoftmaxSizes {
  int64_t rows, size, inner; // rows = outer * inner
};
SoftmaxSizes softmaxSizes(const CallRequest &r) {
  const Shape &shape = r.operand(0).shape;
  size_t dimension = size_t(r.integer("dimension"));
  int64_t inner = product(shape, dimension + 1);
  return {product(shape, 0, dimension) * inner, shape[dimension], inner};
}

/// The kernels of a softmax or its gradient, by where the elements of a row lie.
struct SoftmaxEntries {
  std::string_view byWarps, byBlocks, singly; // side by side
  std::string_view distant, byThreads;        // `inner` elements apart
};

/// Adds the call of a softmax's rows. Where neighbouring rows lie side by side and there are many of them, each thread
/// has a row of its own, so that a warp reads consecutive elements.
template <typename P>
void addSoftmaxCall(Calls &calls, DType type, bool aligned, const SoftmaxEntries &entries, const P &p) {
  if (p.size == 0 || p.rows == 0)
    return;
  if (p.inner == 1)
    addPackedRowCall(calls, kLossFile, type, aligned, entries.byWarps, entries.byBlocks, entries.singly, p.rows, p.size,
                     p);
  else if (p.inner >= kWarpThreads && p.rows >= p.size)
    addElementCall(calls, kLossFile, type, entries.byThreads, p.rows, p);
  else
    addRowCall(calls, kLossFile, type, entries.distant, p.rows, p.size, p);
}

FaultText wrongLabel(int64_t classes, int64_t ignored) {
  return [=](const FaultRecord &record) -> Error {
    return {fmt::format("label {} of row {} is outside of [0, {}) and is not the ignored label {}; check the input "
                        "data",
                        record.value, record.where, classes, ignored)};
  };
}
} // namespace

bool hasTypesOfRows(const CallRequest &r) {
  const TensorView &x = r.operand(0);
  bool isHalf = x.dtype == DType::BF16 || x.dtype == DType::F16;
  auto fits = [&](const TensorView &view) {
    bool isInteger = view.dtype == DType::I64 || view.dtype == DType::I32;
    return view.dtype == x.dtype || isInteger || (isHalf && view.dtype == DType::F32 && view.shape != x.shape);
  };
  return std::all_of(r.request.operands.begin(), r.request.operands.end(), fits) &&
         std::all_of(r.request.results.begin(), r.request.results.end(), fits);
}

Result<Calls> callSoftmax(const CallRequest &r) {
  SoftmaxSizes s = softmaxSizes(r);
  Calls calls;
  addSoftmaxCall(calls, r.result().dtype, areAligned({r.operand(0).data, r.result().data}),
                 {"softmaxByWarps", "softmaxByBlocks", "softmaxSingly", "softmaxOfDistant", "softmaxByThreads"},
                 SoftmaxParameters{r.operand(0).data, r.result().data, s.rows, s.size, s.inner});
  return calls;
}

Result<Calls> callSoftmaxBackward(const CallRequest &r) {
  SoftmaxSizes s = softmaxSizes(r);
  Calls calls;
  addSoftmaxCall(
      calls, r.result().dtype, areAligned({r.operand(0).data, r.operand(1).data, r.result().data}),
      {"softmaxBackwardByWarps", "softmaxBackwardByBlocks", "softmaxBackwardSingly", "softmaxBackwardOfDistant",
       "softmaxBackwardByThreads"},
      SoftmaxBackwardParameters{r.operand(0).data, r.operand(1).data, r.result().data, s.rows, s.size, s.inner});
  return calls;
}

Result<Calls> callCrossEntropy(const CallRequest &r) {
  if (!hasTypesOfRows(r))
    return throughFloat(r, callCrossEntropy);
  RowSizes s = rowSizes(r.operand(0));
  LossParameters p{integersOf(r.operand(1)),
                   r.operand(0).data,
                   floatsOf(r.result(0)),
                   floatsOf(r.result(1)),
                   s.rows,
                   s.n,
                   r.integerOr("classes", s.n),
                   r.integer("ignore_index"),
                   r.faults};
  Calls calls;
  calls.faultText = wrongLabel(p.classes, p.ignored);
  addPackedRowCall(calls, kLossFile, r.operand(0).dtype, areAligned({p.logits}), "lossByWarps", "lossByBlocks",
                   "lossSingly", s.rows, s.n, p);
  return calls;
}

Result<Calls> callCrossEntropyBackward(const CallRequest &r) {
  if (!hasTypesOfRows(r))
    return throughFloat(r, callCrossEntropyBackward);
  RowSizes s = rowSizes(r.operand(0));
  LossBackwardParameters p{integersOf(r.operand(1)),
                           r.operand(0).data,
                           floatsOf(r.operand(2)),
                           floatsOf(r.operand(3)),
                           r.result().data,
                           s.rows,
                           s.n,
                           r.integerOr("classes", s.n),
                           r.integer("ignore_index"),
                           r.faults};
  Calls calls;
  calls.faultText = wrongLabel(p.classes, p.ignored);
  addPackedRowCall(calls, kLossFile, r.operand(0).dtype, areAligned({p.logits, p.dLogits}), "lossBackwardByWarps",
                   "lossBackwardByBlocks", "lossBackwardSingly", s.rows, s.n, p);
  return calls;
}

Result<Calls> callCountNonfinite(const CallRequest &r) {
  constexpr int64_t kMostCounts = 1024;
  DType type = r.operand(0).dtype;
  CountNonfiniteParameters p{};
  p.x = r.operand(0).data, p.total = static_cast<int64_t *>(r.result().data), p.n = r.operand(0).elements();
  const int64_t width = kPackBytes / bytesOf(type);
  KernelCall first = elementCall(kLossFile, type, areAligned({p.x}) ? "countNonfinite" : "countNonfiniteSingly",
                                 (p.n + width - 1) / width, p);
  first.blocks = std::min(first.blocks, kMostCounts);
  p.count = first.blocks;
  Calls calls;
  p.counts = static_cast<int64_t *>(r.scratch(takeScratch(calls, p.count * int64_t(sizeof(int64_t)))));
  std::memcpy(first.parameters.data(), &p, sizeof(p));
  calls.calls.push_back(std::move(first));
  addRowCall(calls, kLossFile, type, "addCounts", 1, p.count, p);
  return calls;
}

} // namespace kerf::runtime::cuda
