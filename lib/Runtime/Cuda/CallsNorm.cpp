// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of softmax, normalizations and losses (Kernels/Norm.cu).
#include "CallsSort.h"
#include "Kernels/ParametersNorm.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr std::string_view kFile = "Norm";

/// Adds the call of a softmax's rows. Where neighbouring rows lie side by side and there are many of them, each thread
/// has a row of its own, so that a warp reads consecutive elements.
template <typename P>
void addSoftmaxCall(Calls &calls, DType type, std::string_view byBlocks, std::string_view byThreads, const P &p) {
  constexpr int64_t kWarp = 32;
  if (p.size == 0)
    return;
  if (p.inner >= kWarp && p.rows >= p.size)
    addElementCall(calls, kFile, type, byThreads, p.rows, p);
  else
    addRowCall(calls, kFile, type, byBlocks, p.rows, p.size, p);
}

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

/// Numbers of rows and of columns of a normalization or a loss.
struct RowSizes {
  int64_t rows, n;
};
RowSizes rowSizes(const TensorView &x) { return {product(x.shape, 0, x.shape.size() - 1), x.shape.back()}; }

/// Adds the calls of a normalization's gradients. The rows are summed in the same pieces as on the CPU.
Calls callsOfNormBackward(const CallRequest &r, NormBackwardParameters p) {
  constexpr int64_t kFewestRows = 32, kMostPieces = 64;
  RowSizes sizes = rowSizes(r.operand(0));
  DType type = r.operand(0).dtype;
  p.rows = sizes.rows, p.n = sizes.n;
  p.rowsOfPiece = std::max(kFewestRows, (p.rows + kMostPieces - 1) / kMostPieces);
  p.pieces = (p.rows + p.rowsOfPiece - 1) / p.rowsOfPiece;
  Calls calls;
  int64_t tensors = r.request.results.size() - 1; // dScale and, for layer_norm, dBias
  p.sums = static_cast<double *>(r.scratch(takeScratch(calls, tensors * p.pieces * p.n * int64_t(sizeof(double)))));
  if (p.n == 0)
    return calls;
  addRowCall(calls, kFile, type, "normBackward", p.rows, p.n, p);
  addElementCall(calls, kFile, type, "sumPieces", p.pieces * p.n, p);
  addElementCall(calls, kFile, type, "addPieces", p.n, p);
  return calls;
}

FaultText wrongLabel(int64_t classes, int64_t ignored) {
  return [=](const FaultRecord &record) -> Error {
    return {fmt::format("label {} of row {} is outside of [0, {}) and is not the ignored label {}; check the input "
                        "data",
                        record.value, record.where, classes, ignored)};
  };
}
} // namespace

Result<Calls> callSoftmax(const CallRequest &r) {
  SoftmaxSizes s = softmaxSizes(r);
  Calls calls;
  addSoftmaxCall(calls, r.result().dtype, "softmax", "softmaxByThreads",
                 SoftmaxParameters{r.operand(0).data, r.result().data, s.rows, s.size, s.inner});
  return calls;
}

Result<Calls> callSoftmaxBackward(const CallRequest &r) {
  SoftmaxSizes s = softmaxSizes(r);
  Calls calls;
  addSoftmaxCall(
      calls, r.result().dtype, "softmaxBackward", "softmaxBackwardByThreads",
      SoftmaxBackwardParameters{r.operand(0).data, r.operand(1).data, r.result().data, s.rows, s.size, s.inner});
  return calls;
}

Result<Calls> callLayerNorm(const CallRequest &r) {
  RowSizes s = rowSizes(r.operand(0));
  NormParameters p{r.operand(0).data,
                   r.operand(1).data,
                   r.operand(2).data,
                   r.result(0).data,
                   r.result(1).data,
                   r.result(2).data,
                   s.rows,
                   s.n,
                   r.number("epsilon")};
  Calls calls;
  addRowCall(calls, kFile, r.operand(0).dtype, "layerNorm", s.rows, s.n, p);
  return calls;
}

Result<Calls> callLayerNormBackward(const CallRequest &r) {
  NormBackwardParameters p{};
  p.x = r.operand(0).data, p.scale = r.operand(1).data, p.mean = r.operand(2).data, p.rstd = r.operand(3).data;
  p.dy = r.operand(4).data;
  p.dx = r.result(0).data, p.dScale = r.result(1).data, p.dBias = r.result(2).data;
  return callsOfNormBackward(r, p);
}

Result<Calls> callRmsNorm(const CallRequest &r) {
  RowSizes s = rowSizes(r.operand(0));
  NormParameters p{
      r.operand(0).data,  r.operand(1).data, nullptr, r.result(0).data, nullptr, r.result(1).data, s.rows, s.n,
      r.number("epsilon")};
  Calls calls;
  addRowCall(calls, kFile, r.operand(0).dtype, "rmsNorm", s.rows, s.n, p);
  return calls;
}

Result<Calls> callRmsNormBackward(const CallRequest &r) {
  NormBackwardParameters p{};
  p.x = r.operand(0).data, p.scale = r.operand(1).data, p.rstd = r.operand(2).data, p.dy = r.operand(3).data;
  p.dx = r.result(0).data, p.dScale = r.result(1).data;
  return callsOfNormBackward(r, p);
}

Result<Calls> callCrossEntropy(const CallRequest &r) {
  RowSizes s = rowSizes(r.operand(0));
  LossParameters p{integersOf(r.operand(1)),  r.operand(0).data, r.result(0).data, r.result(1).data, s.rows, s.n,
                   r.integer("ignore_index"), r.faults};
  Calls calls;
  calls.faultText = wrongLabel(p.classes, p.ignored);
  addRowCall(calls, kFile, r.operand(0).dtype, "crossEntropy", s.rows, s.n, p);
  return calls;
}

Result<Calls> callCrossEntropyBackward(const CallRequest &r) {
  RowSizes s = rowSizes(r.operand(0));
  LossBackwardParameters p{
      integersOf(r.operand(1)),  r.operand(0).data, r.operand(2).data, r.operand(3).data, r.result().data, s.rows, s.n,
      r.integer("ignore_index"), r.faults};
  Calls calls;
  calls.faultText = wrongLabel(p.classes, p.ignored);
  addRowCall(calls, kFile, r.operand(0).dtype, "crossEntropyBackward", s.rows, s.n, p);
  return calls;
}

Result<Calls> callCountNonfinite(const CallRequest &r) {
  constexpr int64_t kMostCounts = 1024;
  DType type = r.operand(0).dtype;
  CountNonfiniteParameters p{};
  p.x = r.operand(0).data, p.total = static_cast<int64_t *>(r.result().data), p.n = r.operand(0).elements();
  KernelCall first = elementCall(kFile, type, "countNonfinite", p.n, p);
  first.blocks = std::min(first.blocks, kMostCounts);
  p.count = first.blocks;
  Calls calls;
  p.counts = static_cast<int64_t *>(r.scratch(takeScratch(calls, p.count * int64_t(sizeof(int64_t)))));
  std::memcpy(first.parameters.data(), &p, sizeof(p));
  calls.calls.push_back(std::move(first));
  addRowCall(calls, kFile, type, "addCounts", 1, p.count, p);
  return calls;
}

} // namespace kerf::runtime::cuda
