// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of normalizations (Kernels/Norm.cu).
#include "CallsRows.h"
#include "Kernels/ParametersColumns.h"

#include <algorithm>

namespace kerf::runtime::cuda {

namespace {
constexpr std::string_view kNormFile = "Norm";

/// Returns `elements` rounded up to whole warps, as a number of threads.
int64_t wholeWarps(int64_t elements) { return std::max<int64_t>(1, quotientUp(elements, kWarpThreads)) * kWarpThreads; }

/// Adds the call of a normalization. Rows that fit into the registers of a warp or of a block are read once.
Calls callsOfNorm(DType type, const NormParameters &p) {
  constexpr int64_t kMostThreads = 1024, kThreads = 256, kMostGrid = int64_t(1) << 30;
  const int64_t bytes = bytesOf(type), width = kPackBytes / bytes, warps = kThreads / kWarpThreads;
  const bool packed = p.n % width == 0 && areAligned({p.x, p.y, p.scale.data, p.bias.data});
  Calls calls;
  if (p.rows == 0)
    return calls;
  auto byWarps = [&](std::string_view entry) {
    calls.calls.push_back(warpCall(kNormFile, type, entry, p.rows, p));
    std::get<KernelCall>(calls.calls.back()).blocks = (p.rows + warps - 1) / warps;
  };
  if (p.rows > kMostGrid)
    addRowCall(calls, kNormFile, type, "normOfLongRows", p.rows, p.n, p);
  else if (packed && p.n <= keptByWarp(bytes) * kWarpThreads)
    byWarps("normByWarps");
  else if (!packed && p.n <= kKeptSingly * kWarpThreads)
    byWarps("normByWarpsSingly");
  else if (packed && p.n <= keptByBlock(bytes) * kMostThreads) {
    calls.calls.push_back(rowCall(kNormFile, type, "normByBlocks", p.rows, p.n, p));
    auto &call = std::get<KernelCall>(calls.calls.back());
    call.blocks = p.rows;
    call.threads = wholeWarps((p.n + keptByBlock(bytes) - 1) / keptByBlock(bytes));
  } else
    addRowCall(calls, kNormFile, type, "normOfLongRows", p.rows, p.n, p);
  return calls;
}

/// Adds the calls of a normalization's gradients. The rows are summed in pieces, whose number depends on the sizes
/// only. Where the columns of a row fit into a block, one kernel reads x and dy once for all gradients.
Calls callsOfNormBackward(const CallRequest &r, NormBackwardParameters p) {
  constexpr int64_t kFewestRows = 16, kMostThreads = 1024;
  constexpr int64_t kMultiprocessors = 132, kThreadsOfEach = 768; // of an H100, and threads for which it has registers
  const RowSizes sizes = rowSizes(r.operand(0));
  const DType type = r.operand(0).dtype;
  const bool isCentered = r.request.results.size() > 2; // layer_norm, which has a bias
  const BackwardTile tile = isCentered ? layerNormTile(bytesOf(type)) : rmsNormTile(bytesOf(type));
  p.rows = sizes.rows, p.n = sizes.n, p.inverse = 1 / double(sizes.n);
  const int64_t threads = wholeWarps(p.n / tile.columns);
  const int64_t pieces = kMultiprocessors * std::min<int64_t>(quotientUp(kThreadsOfEach, threads), 16);
  p.rowsOfPiece = std::max(kFewestRows, quotientUp(quotientUp(p.rows, pieces), tile.rows) * tile.rows);
  p.pieces = quotientUp(p.rows, p.rowsOfPiece);
  Calls calls;
  const int64_t tensors = isCentered ? 2 : 1;
  const int64_t sumBytes = type == DType::F64 ? sizeof(double) : sizeof(float);
  p.sums = r.scratch(takeScratch(calls, tensors * p.pieces * p.n * sumBytes));
  if (p.n == 0)
    return calls;
  auto byColumns = [&](std::string_view entry, int64_t threadsOfBlock) {
    addRowCall(calls, kNormFile, type, entry, p.pieces, p.n, p);
    if (p.pieces > 0)
      std::get<KernelCall>(calls.calls.back()).threads = threadsOfBlock;
  };
  const bool aligned = areAligned({p.x, p.dy, p.dx, p.scale.data, p.mean.data, p.rstd.data});
  if (p.n % tile.columns == 0 && threads <= tile.mostThreads && aligned)
    byColumns(isCentered ? "layerNormBackward" : "rmsNormBackward", threads);
  else if (p.n <= kMostThreads)
    byColumns(isCentered ? "layerNormBackwardSingly" : "rmsNormBackwardSingly", wholeWarps(p.n));
  else {
    addRowCall(calls, kNormFile, type, "backwardOfLongRows", p.rows, p.n, p);
    addElementCall(calls, kNormFile, type, "sumPieces", p.pieces * p.n, p);
  }
  addRowCall(calls, kNormFile, type, "addPieces", tensors * quotientUp(p.n, kColumnsOfBlock), 1, p);
  std::get<KernelCall>(calls.calls.back()).threads = kColumnThreads;
  return calls;
}
} // namespace

Result<Calls> callLayerNorm(const CallRequest &r) {
  if (!hasTypesOfRows(r))
    return throughFloat(r, callLayerNorm);
  RowSizes s = rowSizes(r.operand(0));
  return callsOfNorm(r.operand(0).dtype,
                     {r.operand(0).data, r.result(0).data, floatsOf(r.operand(1)), floatsOf(r.operand(2)),
                      floatsOf(r.result(1)), floatsOf(r.result(2)), s.rows, s.n, r.number("epsilon"), 1 / double(s.n)});
}

Result<Calls> callLayerNormBackward(const CallRequest &r) {
  if (!hasTypesOfRows(r))
    return throughFloat(r, callLayerNormBackward);
  NormBackwardParameters p{};
  p.x = r.operand(0).data, p.scale = floatsOf(r.operand(1)), p.mean = floatsOf(r.operand(2));
  p.rstd = floatsOf(r.operand(3)), p.dy = r.operand(4).data;
  p.dx = r.result(0).data, p.dScale = floatsOf(r.result(1)), p.dBias = floatsOf(r.result(2));
  return callsOfNormBackward(r, p);
}

Result<Calls> callRmsNorm(const CallRequest &r) {
  if (!hasTypesOfRows(r))
    return throughFloat(r, callRmsNorm);
  RowSizes s = rowSizes(r.operand(0));
  return callsOfNorm(r.operand(0).dtype, {r.operand(0).data,
                                          r.result(0).data,
                                          floatsOf(r.operand(1)),
                                          {},
                                          {},
                                          floatsOf(r.result(1)),
                                          s.rows,
                                          s.n,
                                          r.number("epsilon"),
                                          1 / double(s.n)});
}

Result<Calls> callRmsNormBackward(const CallRequest &r) {
  if (!hasTypesOfRows(r))
    return throughFloat(r, callRmsNormBackward);
  NormBackwardParameters p{};
  p.x = r.operand(0).data, p.scale = floatsOf(r.operand(1)), p.rstd = floatsOf(r.operand(2)), p.dy = r.operand(3).data;
  p.dx = r.result(0).data, p.dScale = floatsOf(r.result(1));
  return callsOfNormBackward(r, p);
}

} // namespace kerf::runtime::cuda
