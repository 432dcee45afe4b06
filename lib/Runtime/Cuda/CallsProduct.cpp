// SPDX-License-Identifier: Apache-2.0
// Calls for matrix products.
#include "Calls.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr int64_t kTile = 16; // Kernels/Product.cu

/// Returns the walk over some dimensions of a tensor, in their order, with loops merged where one loop does the same.
Result<Walk> walkOf(const TensorView &view, const std::vector<int64_t> &dims) {
  std::vector<int64_t> strides = stridesOf(view.shape);
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

std::vector<int64_t> freeDims(const TensorView &view, const std::vector<int64_t> &batch,
                              const std::vector<int64_t> &contracted) {
  auto has = [](const std::vector<int64_t> &dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  std::vector<int64_t> free;
  for (int64_t d = 0; d < int64_t(view.shape.size()); ++d)
    if (!has(batch, d) && !has(contracted, d))
      free.push_back(d);
  return free;
}
} // namespace

Result<Calls> callDotGeneral(const CallRequest &r) {
  Calls calls;
  ProductParameters p{r.operand(0).data, r.operand(1).data, r.result().data, 1, 1, 1, 1, {}, {}, {}, {}, {}, {}};
  if (r.result().elements() == 0)
    return calls;
  struct Side {
    const TensorView &view;
    std::vector<int64_t> batch, contracted;
    Walk *walks[3];
    int64_t *freeSize;
  };
  Side sides[] = {{r.operand(0),
                   r.integers("lhs_batching"),
                   r.integers("lhs_contracting"),
                   {&p.leftBatch, &p.leftFree, &p.leftContracted},
                   &p.m},
                  {r.operand(1),
                   r.integers("rhs_batching"),
                   r.integers("rhs_contracting"),
                   {&p.rightBatch, &p.rightFree, &p.rightContracted},
                   &p.n}};
  for (Side &side : sides) {
    std::vector<int64_t> free = freeDims(side.view, side.batch, side.contracted);
    const std::vector<int64_t> *groups[] = {&side.batch, &free, &side.contracted};
    for (int g = 0; g < 3; ++g) {
      auto walk = walkOf(side.view, *groups[g]);
      if (!walk)
        return walk.error();
      *side.walks[g] = *walk;
    }
    for (int64_t d : free)
      *side.freeSize *= side.view.shape[size_t(d)];
  }
  for (int64_t d : sides[0].batch)
    p.batches *= r.operand(0).shape[size_t(d)];
  for (int64_t d : sides[0].contracted)
    p.k *= r.operand(0).shape[size_t(d)];
  int64_t tiles = p.batches * ((p.m + kTile - 1) / kTile) * ((p.n + kTile - 1) / kTile);
  calls.calls.push_back(elementCall("Product", r.result().dtype, "multiply", tiles * kTile * kTile, p));
  return calls;
}

} // namespace kerf::runtime::cuda
