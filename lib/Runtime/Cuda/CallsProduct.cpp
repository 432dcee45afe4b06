// SPDX-License-Identifier: Apache-2.0
// Calls for matrix products: cuBLASLt's where it has the product, else those of Kernels/Product.cu.
#include "CallsCopy.h"
#include "ProductPlan.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr int64_t kTile = 16; // Kernels/Product.cu

/// Returns the walk over some dimensions of a tensor, in their order, with loops merged where one loop does the same.
Result<Walk> walkOf(const TensorView &view, const std::vector<int64_t> &dims) {
  std::vector<int64_t> strides = rowMajorStrides(view.shape);
  Walk walk;
  for (int64_t d : dims) {
    int64_t size = view.shape[size_t(d)], stride = strides[size_t(d)];
    if (size == 1)
      continue;
    if (int last = walk.rank - 1; last >= 0 && walk.strides[last] == stride * size) {
      walk.sizes[last] *= size;
      walk.strides[last] = stride;
      continue;
    }
    if (walk.rank == kMostDims)
      return Error{fmt::format("the GPU's kernels walk over up to {} dimensions that cannot be merged, and a product "
                               "asks for more; reshape the tensor in the model",
                               kMostDims)};
    walk.sizes[walk.rank] = size;
    walk.strides[walk.rank++] = stride;
  }
  return walk;
}

Result<Calls> callPlainProduct(const CallRequest &r) {
  Calls calls;
  const void *sum = r.operands() == 3 ? r.operand(2).data : nullptr;
  ProductParameters p{r.operand(0).data, r.operand(1).data, sum, r.result().data, 1, 1, 1, 1, {}, {}, {}, {}, {}, {}};
  auto [left, right] = productDims(r);
  struct Side {
    const TensorView &view;
    const ProductDims &dims;
    Walk *walks[3];
  };
  for (const Side &side : {Side{r.operand(0), left, {&p.leftBatch, &p.leftFree, &p.leftContracted}},
                           Side{r.operand(1), right, {&p.rightBatch, &p.rightFree, &p.rightContracted}}}) {
    const std::vector<int64_t> *groups[] = {&side.dims.batch, &side.dims.free, &side.dims.contracted};
    for (int g = 0; g < 3; ++g) {
      auto walk = walkOf(side.view, *groups[g]);
      if (!walk)
        return walk.error();
      *side.walks[g] = *walk;
    }
  }
  p.batches = sizeOf(r.operand(0).shape, left.batch);
  p.m = sizeOf(r.operand(0).shape, left.free);
  p.n = sizeOf(r.operand(1).shape, right.free);
  p.k = sizeOf(r.operand(0).shape, left.contracted);
  int64_t tiles = p.batches * ((p.m + kTile - 1) / kTile) * ((p.n + kTile - 1) / kTile);
  calls.calls.push_back(elementCall("Product", r.result().dtype, "multiply", tiles * kTile * kTile, p));
  return calls;
}

/// Copies an operand to scratch memory, dense in the order batch, free, contracted. Returns where the copy begins.
Result<void *> addDenseCopy(Calls &calls, const CallRequest &r, const TensorView &from, const ProductDims &dims) {
  TensorView to{r.scratch(calls.scratchBytes), from.dtype, {}};
  std::vector<int64_t> strides = rowMajorStrides(from.shape), order;
  for (const auto *group : {&dims.batch, &dims.free, &dims.contracted})
    order.insert(order.end(), group->begin(), group->end());
  for (int64_t d : order)
    to.shape.push_back(from.shape[size_t(d)]);
  std::vector<int64_t> toStrides = rowMajorStrides(to.shape);
  std::vector<CopyDim> loops;
  for (size_t i = 0; i < order.size(); ++i)
    loops.push_back({to.shape[i], strides[size_t(order[i])], toStrides[i]});
  if (Status status = addCopy(calls, from, to, loops, 0, 0); !status)
    return status.error();
  calls.scratchBytes += scratchPart(to.bytes());
  return to.data;
}
} // namespace

Result<Calls> callsOfPlan(const CallRequest &r, const ProductPlan &plan, GemmPlaces places) {
  const TensorView &result = r.result();
  Calls calls;
  if (Status status = addOperands(calls, r, plan, places); !status)
    return status.error();
  if (plan.gemm.accumulates)
    places.c = r.operand(2).data;
  // While memory is planned, there are no addresses, and nothing is asked of the library.
  bool isPlanned = !result.data || (calls.scratchBytes > 0 && !r.request.scratch);
  if (isPlanned)
    return calls;
  auto call = callOf(r.gpu, plan.gemm, places);
  if (!call)
    return call.error();
  calls.calls.emplace_back(std::move(*call));
  return calls;
}

Result<Calls> callDotGeneral(const CallRequest &r) {
  const TensorView &left = r.operand(0), &result = r.result();
  if (isFloat8(left.dtype))
    return callFloat8Product(r);
  if (result.elements() == 0)
    return Calls();
  bool sameFactors = left.dtype == r.operand(1).dtype;
  auto plan = sameFactors && r.gpu->products.usesLibrary ? planOf(r, r.gpu->products.tf32) : std::nullopt;
  if (!plan)
    return sameFactors && result.dtype == left.dtype ? callPlainProduct(r) : throughFloat(r, callDotGeneral);
  return callsOfPlan(r, *plan, {nullptr, nullptr, result.data, nullptr});
}

Status addOperands(Calls &calls, const CallRequest &r, const ProductPlan &plan, GemmPlaces &places) {
  const TensorView &left = r.operand(0), &right = r.operand(1);
  places.a = right.data;
  places.b = left.data;
  struct Side {
    const TensorView &view;
    const ProductSide &planned;
    const void *&place;
  };
  for (auto [view, planned, place] : {Side{right, plan.right, places.a}, Side{left, plan.left, places.b}}) {
    if (!planned.copies)
      continue;
    auto copy = addDenseCopy(calls, r, view, planned.dims);
    if (!copy)
      return copy.error();
    place = *copy;
  }
  if (int64_t bytes = workspaceBytes(plan.gemm)) {
    places.workspace = r.scratch(calls.scratchBytes);
    calls.scratchBytes += bytes;
  }
  return ok();
}

} // namespace kerf::runtime::cuda
