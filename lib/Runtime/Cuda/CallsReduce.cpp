// SPDX-License-Identifier: Apache-2.0
// Calls of reductions. Most are reductions of a tensor (outer, kept, inner) over its outer and inner dimensions, whose
// kernels read whole cache lines (Kernels/ReduceRows.cu); the kernel `reduce` (Kernels/Reduce.cu) walks over any
// others.
#include "CallsCopy.h"
#include "CallsRows.h"
#include "Kernels/ParametersColumns.h"

#include <algorithm>
#include <optional>

namespace kerf::runtime::cuda {

namespace {
constexpr int64_t kBlocks = 132 * 8; // enough for each multiprocessor of an H100 to have several at a time

Reduction kindOf(const CallRequest &r) {
  const std::string kind = r.attrs().at("kind").get<std::string>();
  return kind == "sum" ? Reduction::Sum : kind == "max" ? Reduction::Max : Reduction::Min;
}

int64_t quotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Sizes of a tensor (outer, kept, inner) that is reduced over its outer and inner dimensions.
struct Split {
  int64_t outer = 1, kept = 1, inner = 1;
};

/// Returns the sizes of a reduction that has this form and reduces some elements; nothing for another one.
std::optional<Split> splitOf(const CallRequest &r) {
  const Shape &shape = r.operand(0).shape;
  std::vector<int64_t> reduced = r.integers("dimensions");
  Split split;
  enum class Part { Outer, Kept, Inner } part = Part::Outer;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0)
      return std::nullopt;
    if (shape[d] == 1)
      continue;
    bool isReduced = std::find(reduced.begin(), reduced.end(), int64_t(d)) != reduced.end();
    if (!isReduced && part == Part::Inner)
      return std::nullopt;
    if (!isReduced)
      part = Part::Kept;
    else if (part == Part::Kept)
      part = Part::Inner;
    (part == Part::Outer ? split.outer : part == Part::Kept ? split.kept : split.inner) *= shape[d];
  }
  if (split.kept == 1) // all elements are one run
    split = {1, 1, split.outer * split.inner};
  return split;
}

/// Splits the rows of a table into pieces, so that all blocks together have enough work.
void splitTable(ReduceRowsParameters &p, int64_t width) {
  constexpr int64_t kFewestRows = 64; // of a piece: eight for each warp
  int64_t tiles = quotientUp(p.kept, kWarpThreads * (p.kept % width == 0 ? width : 1));
  p.pieces = std::min(quotientUp(kBlocks, tiles), quotientUp(p.outer, kFewestRows));
  p.outerOfPiece = quotientUp(p.outer, p.pieces);
  p.pieces = quotientUp(p.outer, p.outerOfPiece);
  p.innerOfPiece = p.inner;
}

/// Splits runs of neighbouring elements into pieces. `groups` groups are to have work.
void splitRuns(ReduceRowsParameters &p, int64_t groups, int64_t width) {
  constexpr int64_t kFewestElements = 4096; // of a piece
  int64_t wanted = std::min(quotientUp(groups, p.kept), quotientUp(p.outer * p.inner, kFewestElements));
  if (p.outer >= wanted) {
    p.outerOfPiece = quotientUp(p.outer, wanted);
    p.innerOfPiece = p.inner;
  } else {
    p.outerOfPiece = 1;
    p.innerOfPiece = quotientUp(quotientUp(p.inner, quotientUp(wanted, p.outer)), width) * width;
  }
  p.innerPieces = quotientUp(p.inner, p.innerOfPiece);
  p.pieces = quotientUp(p.outer, p.outerOfPiece) * p.innerPieces;
}

Calls callsOfRows(const CallRequest &r, const Split &split) {
  constexpr int64_t kMostOfThread = 16, kMostOfWarp = 1024; // elements of a run
  const TensorView &x = r.operand(0), &y = r.result();
  const int64_t width = kPackBytes / bytesOf(x.dtype);
  ReduceRowsParameters p{kindOf(r), x.data, y.data, nullptr, split.outer, split.kept, split.inner, 0, 0, 1, 1};
  KernelCall call;
  if (p.inner == 1) {
    splitTable(p, width);
    bool packed = p.kept % width == 0 && areAligned({x.data});
    int64_t tiles = quotientUp(p.kept, kWarpThreads * (packed ? width : 1));
    call = rowCall("ReduceRows", x.dtype, packed ? "reduceColumns" : "reduceColumnsSingly", tiles * p.pieces,
                   kReduceThreads, p);
  } else if (p.outer * p.inner <= kMostOfThread) {
    splitRuns(p, 1, width);
    call = elementCall("ReduceRows", x.dtype, "reduceRunsByThreads", p.kept, p);
  } else if (p.inner <= kMostOfWarp) {
    splitRuns(p, kBlocks * kReduceThreads / kWarpThreads, width);
    call = warpCall("ReduceRows", x.dtype, "reduceRunsByWarps", p.kept * p.pieces, p);
  } else {
    splitRuns(p, kBlocks, width);
    call = rowCall("ReduceRows", x.dtype, "reduceRunsByBlocks", p.kept * p.pieces, kReduceThreads, p);
  }
  Calls calls;
  if (p.pieces > 1)
    p.partials = r.scratch(takeScratch(calls, p.pieces * p.kept * int64_t(sizeof(double))));
  std::memcpy(call.parameters.data(), &p, sizeof(p));
  calls.calls.push_back(std::move(call));
  if (p.pieces == 1)
    return calls;
  addRowCall(calls, "ReduceRows", x.dtype, "combinePieces", quotientUp(p.kept, kColumnsOfBlock), 1, p);
  std::get<KernelCall>(calls.calls.back()).threads = kColumnThreads;
  return calls;
}
} // namespace

Result<Calls> callReduce(const CallRequest &r) {
  if (auto split = splitOf(r); split && (split->inner == 1 || areAligned({r.operand(0).data})))
    return callsOfRows(r, *split);
  Calls calls;
  const TensorView &x = r.operand(0), &y = r.result();
  std::vector<int64_t> reduced = r.integers("dimensions"), strides = stridesOf(x.shape);
  std::vector<CopyDim> kept, removed;
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end())
      kept.push_back({x.shape[d], strides[d], 0});
    else
      removed.push_back({x.shape[d], strides[d], 0});
  ReduceParameters p{kindOf(r), x.data, y.data, y.elements(), 1, {}, {}};
  for (const CopyDim &dim : removed)
    p.count *= dim.size;
  for (auto [dims, walk] : {std::pair(merged(kept), &p.kept), std::pair(merged(removed), &p.reduced)}) {
    if (dims.size() > size_t(kMostDims))
      return tooManyDims(dims.size());
    walk->rank = int32_t(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      walk->sizes[d] = dims[d].size, walk->strides[d] = dims[d].from;
  }
  if (p.results > 0)
    calls.calls.push_back(rowCall("Reduce", y.dtype, "reduce", p.results, p.count, p));
  return calls;
}

} // namespace kerf::runtime::cuda
