// SPDX-License-Identifier: Apache-2.0
// Calls that route tokens to experts and back. The slot of a choice is the number of earlier choices of the same expert
// in the same batch entry, which a cumulative sum over a one-hot matrix of the choices gives.
#include "CallsIndices.h"

#include <fmt/format.h>

namespace kerf::runtime::ascend {

void callTopK(Builder &b) {
  View scores = b.operand(0), values = b.result(0), indices = b.result(1);
  int64_t size = scores.sizes.back(), count = values.sizes.back(),
          rows = product(scores.sizes, 0, scores.sizes.size() - 1);
  if (values.elements() == 0)
    return;
  // A stable sort, and not aclnnTopk: the first of equal scores comes first on all devices.
  View sorted = b.temporary(scores.dtype, {rows, size}), order = b.temporary(DType::I64, {rows, size});
  b.call(op::Sort, reshaped(scores, {rows, size}), true, int64_t(1), true, sorted, order);
  b.copy(sliced(sorted, 1, 0, count), reshaped(values, {rows, count}));
  View first = sliced(order, 1, 0, count);
  b.copy(first, reshaped(indices, {rows, count}));
}

void callTopKBackward(Builder &b) {
  View gradient = b.operand(1), y = b.result();
  int64_t size = y.sizes.back(), count = gradient.sizes.back(), rows = product(y.sizes, 0, y.sizes.size() - 1);
  Indices indices = indicesOf(b, {0, size, size, 0, 1, {}});
  b.calls.check->text = [=](int64_t value, int64_t where) {
    return Error{
        fmt::format("index {} at row {} is outside of [0, {}); check the input data", value, where / count, size)};
  };
  if (y.elements() == 0)
    return;
  if (count == 0)
    return b.fill(y, 0);
  View zeros = b.temporary(y.dtype, {rows, size});
  b.fill(zeros, 0);
  b.call(op::ScatterAdd, zeros, int64_t(1), reshaped(indices.rows, {rows, count}), reshaped(gradient, {rows, count}),
         reshaped(y, {rows, size}));
}

namespace {
/// The choices of tokens, n = batch * tokens * choices of them.
struct Routing {
  View slot;                                       // i64 [n]: number of the slot's row, 0 where there is none
  View isDropped;                                  // booleans [n]: whether the choice has no slot on this rank
  int64_t n, choices, tokens, batch, slots, width; // slots: rows of the tensor of slots, width: elements of a token
};

Routing routingOf(Builder &b, const View &slots, size_t indicesAt) {
  const TensorView &chosen = b.request.operands[indicesAt];
  const int64_t experts = b.integer("experts"), local = slots.sizes[0], capacity = slots.sizes[2];
  Routing r{{},
            {},
            chosen.elements(),
            chosen.shape[2],
            chosen.shape[1],
            chosen.shape[0],
            local * slots.sizes[1] * capacity,
            slots.sizes[3]};
  View expert = indicesOf(b, {indicesAt, experts, experts, 0, 1, {}}).rows;
  b.calls.check->text = [experts, shape = chosen.shape](int64_t value, int64_t where) {
    return Error{fmt::format("expert {} at {} is outside of [0, {}); check the input data", value,
                             positionText(shape, where), experts)};
  };
  const int64_t perEntry = r.tokens * r.choices;
  r.slot = b.temporary(DType::I64, {r.n});
  r.isDropped = b.temporary(DType::Bool, {r.n});
  if (r.n == 0 || r.slots == 0)
    return r;
  // place = number of earlier choices of the same expert.
  const Shape grid = {r.batch, perEntry, experts};
  View numbers = b.temporary(DType::I64, {experts}), isChosen = b.temporary(DType::Bool, grid);
  b.call(op::Arange, Builder::scalar(DType::I64, 0), Builder::scalar(DType::I64, double(experts)),
         Builder::one(DType::I64), numbers);
  View perToken = reshaped(expert, {r.batch, perEntry, 1});
  b.call(op::EqTensor, broadcast(perToken, grid, {0, 1, 2}), broadcast(numbers, grid, {2}), isChosen);
  View ones = b.as(DType::I32, isChosen), counts = b.temporary(DType::I32, grid),
       at = b.temporary(DType::I32, {r.batch, perEntry, 1});
  b.call(op::Cumsum, ones, int64_t(1), DType::I32, counts);
  b.call(op::Gather, counts, int64_t(2), perToken, at);
  View place = b.as(DType::I64, reshaped(at, {r.n}));
  b.call(op::Adds, place, Builder::scalar(DType::I64, -1), Builder::one(DType::I64), place);
  // slot = ((expert - first expert of the rank) * batch + batch entry) * capacity + place.
  if (b.operands() > 3)
    b.subtract(expert, broadcast(b.as(DType::I64, b.operand(3)), {r.n}, {}), expert);
  View isHigh = b.temporary(DType::Bool, {r.n}), isHere = b.temporary(DType::Bool, {r.n});
  b.call(op::GtScalar, expert, Builder::scalar(DType::I64, -1), isHere);
  b.call(op::LogicalNot, isHere, r.isDropped);
  for (const auto &[view, most] : {std::pair(expert, local - 1), std::pair(place, capacity - 1)}) {
    b.call(op::GtScalar, view, Builder::scalar(DType::I64, double(most)), isHigh);
    b.call(op::LogicalOr, r.isDropped, isHigh, r.isDropped);
  }
  View entry = b.temporary(DType::I64, {r.batch});
  b.call(op::Arange, Builder::scalar(DType::I64, 0), Builder::scalar(DType::I64, double(r.batch)),
         Builder::one(DType::I64), entry);
  b.call(op::Muls, expert, Builder::scalar(DType::I64, double(r.batch)), r.slot);
  View perEntrySlots = reshaped(r.slot, {r.batch, perEntry});
  b.add(perEntrySlots, broadcast(entry, perEntrySlots.sizes, {0}), perEntrySlots);
  b.call(op::Muls, r.slot, Builder::scalar(DType::I64, double(capacity)), r.slot);
  b.add(r.slot, place, r.slot);
  b.call(op::InplaceMaskedFillScalar, r.slot, r.isDropped, Builder::scalar(DType::I64, 0));
  return r;
}

/// Sets the rows of choices that are dropped to 0. `rows` is [n, width].
void clearDropped(Builder &b, const Routing &r, const View &rows) {
  b.call(op::InplaceMaskedFillScalar, rows, broadcast(r.isDropped, rows.sizes, {0}), Builder::scalar(rows.dtype, 0));
}

/// Returns the slot of each choice, a row of `width` elements; zeros for a choice that is dropped.
View slotsOfChoices(Builder &b, const Routing &r, const View &slots) {
  View rows = b.temporary(slots.dtype, {r.n, r.width});
  b.call(op::Embedding, reshaped(slots, {r.slots, r.width}), r.slot, rows);
  clearDropped(b, r, rows);
  return rows;
}
} // namespace

void callDispatch(Builder &b) {
  View tokens = b.operand(0), weights = b.operand(2), slots = b.result();
  if (slots.elements() == 0)
    return;
  Routing r = routingOf(b, slots, 1);
  if (r.n == 0)
    return b.fill(slots, 0);
  // Each choice is a copy of its token times its weight; each slot is the sum of at most one of them.
  View copies = b.temporary(tokens.dtype, {r.batch * r.tokens, r.choices, r.width});
  View factors = reshaped(weights, {r.batch * r.tokens, r.choices, 1});
  b.call(op::Mul, broadcast(reshaped(tokens, {r.batch * r.tokens, r.width}), copies.sizes, {0, 2}),
         broadcast(factors, copies.sizes, {0, 1, 2}), copies);
  clearDropped(b, r, reshaped(copies, {r.n, r.width}));
  sumRows(b, reshaped(copies, {r.n, r.width}), r.slot, reshaped(slots, {r.slots, r.width}));
}

void callCombine(Builder &b) {
  View slots = b.operand(0), weights = b.operand(2), tokens = b.result();
  if (tokens.elements() == 0)
    return;
  Routing r = routingOf(b, slots, 1);
  if (r.n == 0 || r.slots == 0)
    return b.fill(tokens, 0);
  View rows = slotsOfChoices(b, r, slots);
  multiply(b, reshaped(weights, {r.batch * r.tokens, 1, r.choices}),
           reshaped(rows, {r.batch * r.tokens, r.choices, r.width}),
           reshaped(tokens, {r.batch * r.tokens, 1, r.width}));
}

void callCombineBackward(Builder &b) {
  View slots = b.operand(0), tokens = b.operand(2), weights = b.result();
  if (weights.elements() == 0)
    return;
  Routing r = routingOf(b, slots, 1);
  if (r.slots == 0 || r.width == 0)
    return b.fill(weights, 0);
  View rows = slotsOfChoices(b, r, slots), all = reshaped(weights, {r.batch * r.tokens, r.choices, 1});
  multiply(b, reshaped(rows, {r.batch * r.tokens, r.choices, r.width}),
           reshaped(tokens, {r.batch * r.tokens, r.width, 1}), all);
}

} // namespace kerf::runtime::ascend
