// SPDX-License-Identifier: Apache-2.0
// Calls of reductions. Most are reductions of a tensor (outer, kept, inner) over its outer and inner dimensions, whose
// kernels read whole cache lines (Kernels/ReduceRows.cu); the kernel `reduce` (Kernels/Reduce.cu) walks over any
// others.
#include "CallsReduce.h"
#include "CallsCopy.h"
#include "CallsRows.h"

#include <algorithm>
#include <optional>

namespace kerf::runtime::cuda {

namespace {
using package::ReduceForm, package::ReducePlan;

/// Returns the plan of a reduction that the kernels of ReduceRows compute; nothing for another one.
std::optional<ReducePlan> planOf(const CallRequest &r) {
  const TensorView &x = r.operand(0);
  auto plan = package::reducePlan(x.shape, r.integers("dimensions"), bytesOf(x.dtype));
  return plan && (plan->inner == 1 || areAligned({x.data})) ? plan : std::nullopt;
}

Calls callsOfRows(const CallRequest &r, const ReducePlan &plan) {
  const TensorView &x = r.operand(0), &y = r.result();
  const int64_t width = kPackBytes / bytesOf(x.dtype);
  Calls calls;
  void *partials = nullptr;
  if (plan.pieces > 1)
    partials = r.scratch(takeScratch(calls, bytesOfPartials(plan)));
  ReduceRowsParameters p = reduceParameters(kindOf(r.attrs()), plan, x.data, y.data, partials);
  switch (plan.form) {
  case ReduceForm::Table: {
    bool packed = p.kept % width == 0 && areAligned({x.data});
    calls.calls.push_back(rowCall("ReduceRows", x.dtype, packed ? "reduceColumns" : "reduceColumnsSingly",
                                  plan.tiles(packed ? width : 1) * p.pieces, kReduceThreads, p));
    break;
  }
  case ReduceForm::Threads:
    calls.calls.push_back(elementCall("ReduceRows", x.dtype, "reduceRunsByThreads", p.kept, p));
    break;
  case ReduceForm::Warps:
    calls.calls.push_back(warpCall("ReduceRows", x.dtype, "reduceRunsByWarps", p.kept * p.pieces, p));
    break;
  case ReduceForm::Blocks:
    calls.calls.push_back(rowCall("ReduceRows", x.dtype, "reduceRunsByBlocks", p.kept * p.pieces, kReduceThreads, p));
  }
  if (plan.pieces > 1)
    addCombination(calls, x.dtype, p);
  return calls;
}
} // namespace

Reduction kindOf(const nlohmann::ordered_json &attrs) {
  const std::string kind = attrs.at("kind").get<std::string>();
  return kind == "sum" ? Reduction::Sum : kind == "max" ? Reduction::Max : Reduction::Min;
}

int64_t bytesOfPartials(const ReducePlan &plan) { return plan.pieces * plan.kept * int64_t(sizeof(double)); }

ReduceRowsParameters reduceParameters(Reduction kind, const ReducePlan &plan, const void *x, void *y, void *partials) {
  return {kind,
          x,
          y,
          partials,
          plan.outer,
          plan.kept,
          plan.inner,
          plan.outerOfPiece,
          plan.innerOfPiece,
          plan.innerPieces,
          plan.pieces,
          plan.rowsOfWarp};
}

void addCombination(Calls &calls, DType type, const ReduceRowsParameters &p) {
  addRowCall(calls, "ReduceRows", type, "combinePieces", quotientUp(p.kept, kColumnsOfBlock), 1, p);
  std::get<KernelCall>(calls.calls.back()).threads = kColumnThreads;
}

Result<Calls> callReduce(const CallRequest &r) {
  if (auto plan = planOf(r))
    return callsOfRows(r, *plan);
  Calls calls;
  const TensorView &x = r.operand(0), &y = r.result();
  std::vector<int64_t> reduced = r.integers("dimensions"), strides = rowMajorStrides(x.shape);
  std::vector<CopyDim> kept, removed;
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end())
      kept.push_back({x.shape[d], strides[d], 0});
    else
      removed.push_back({x.shape[d], strides[d], 0});
  ReduceParameters p{kindOf(r.attrs()), x.data, y.data, y.elements(), 1, {}, {}};
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
