// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels that route tokens to experts (Kernels/Routing.cu). The choices are sorted by batch entry and
// expert, as the indices of lookups are.
#include "CallsSort.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

Result<Calls> callTopK(const CallRequest &r) {
  const TensorView &scores = r.operand(0), &values = r.result(0), &indices = r.result(1);
  int64_t rows = product(scores.shape, 0, scores.shape.size() - 1), size = scores.shape.back();
  int64_t count = values.shape.back();
  TopKParameters p{scores.data, values.data, indices.data, rows, size, count, indices.dtype == DType::I64};
  Calls calls;
  addRowCall(calls, "Routing", scores.dtype, "topK", count > 0 ? rows : 0, size, p);
  return calls;
}

Result<Calls> callTopKBackward(const CallRequest &r) {
  const TensorView &indices = r.operand(0), &gradient = r.operand(1), &result = r.result();
  int64_t rows = product(result.shape, 0, result.shape.size() - 1), size = result.shape.back();
  int64_t count = gradient.shape.back();
  TopKBackwardParameters p{integersOf(indices), gradient.data, result.data, rows, size, count, r.faults};
  Calls calls;
  calls.faultText = [=](const FaultRecord &record) -> Error {
    return {fmt::format("index {} at row {} is outside of [0, {}); check the input data", record.value,
                        record.where / count, size)};
  };
  addElementCall(calls, "Routing", result.dtype, "topKBackward", rows * std::max(size, count), p);
  return calls;
}

namespace {
/// The tensors of a routing op, which are operands or results: `slots` [e, b, c, d], `indices` (the chosen experts) and
/// `weights` [b, s, k], and `tokens` [b, s, d].
struct RoutingViews {
  const TensorView &slots, &indices, &weights, &tokens;
};

/// Adds the calls that sort the choices, and returns the parameters of the calls that follow.
Result<RoutingParameters> addRouting(Calls &calls, const CallRequest &r, const RoutingViews &views) {
  const Shape &slots = views.slots.shape, &chosen = views.indices.shape;
  int64_t experts = r.integer("experts"), n = views.indices.elements();
  RowLookup lookup{integersOf(views.indices), {}, n, chosen[1] * chosen[2], experts, experts, 0, r.faults};
  calls.faultText = [experts, chosen](const FaultRecord &record) -> Error {
    return {fmt::format("expert {} at {} is outside of [0, {}); check the input data", record.value,
                        positionText(chosen, record.where), experts)};
  };
  Result<SortedRows> sorted = addSort(calls, r, lookup, chosen[0] * experts);
  if (!sorted)
    return sorted.error();
  return RoutingParameters{optionalIntegers(r, 3),
                           sorted->keys,
                           sorted->places,
                           sorted->starts,
                           nullptr,
                           views.slots.data,
                           views.weights.data,
                           views.tokens.data,
                           experts,
                           slots[0],
                           chosen[0],
                           chosen[1],
                           chosen[2],
                           slots[2],
                           slots[3]};
}

/// Adds the call that finds the slot of each choice.
void addSlots(Calls &calls, const CallRequest &r, const RoutingViews &views, RoutingParameters &p) {
  int64_t n = views.indices.elements();
  p.slotOf = static_cast<int64_t *>(r.scratch(takeScratch(calls, n * int64_t(sizeof(int64_t)))));
  addElementCall(calls, "Routing", views.tokens.dtype, "findSlots", n, p);
}
} // namespace

Result<Calls> callDispatch(const CallRequest &r) {
  Calls calls;
  RoutingViews views{r.result(), r.operand(1), r.operand(2), r.operand(0)};
  Result<RoutingParameters> p = addRouting(calls, r, views);
  if (!p)
    return p.error();
  addElementCall(calls, "Routing", views.slots.dtype, "fillSlots", views.slots.elements(), *p);
  return calls;
}

Result<Calls> callCombine(const CallRequest &r) {
  Calls calls;
  RoutingViews views{r.operand(0), r.operand(1), r.operand(2), r.result()};
  Result<RoutingParameters> p = addRouting(calls, r, views);
  if (!p)
    return p.error();
  addSlots(calls, r, views, *p);
  addElementCall(calls, "Routing", views.slots.dtype, "combineSlots", views.tokens.elements(), *p);
  return calls;
}

Result<Calls> callCombineBackward(const CallRequest &r) {
  Calls calls;
  RoutingViews views{r.operand(0), r.operand(1), r.result(), r.operand(2)};
  Result<RoutingParameters> p = addRouting(calls, r, views);
  if (!p)
    return p.error();
  addSlots(calls, r, views, *p);
  addRowCall(calls, "Routing", views.slots.dtype, "multiplySlots", views.weights.elements(), p->width, *p);
  return calls;
}

} // namespace kerf::runtime::cuda
