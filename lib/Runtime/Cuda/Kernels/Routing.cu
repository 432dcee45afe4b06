// SPDX-License-Identifier: Apache-2.0
// Routing of tokens to experts and back: top_k, dispatch and combine, and their gradients. A copy of a token gets the
// slot of its expert whose number is the number of earlier copies of the batch entry for the same expert. The kernels
// read it off the sorted choices, which those of Lookup.cu make.
#include "IndexCode.h"

namespace kerf::runtime::cuda {

constexpr int64_t kNone = int64_t(~uint64_t(0) >> 1);

/// Returns the smallest i in [begin, end) for which holds(i), or kNone. All threads of the block must call it.
template <typename F> KERF_DEVICE int64_t firstWhere(int64_t begin, int64_t end, F holds) {
  int64_t first = kNone;
  for (int64_t i = begin + threadInBlock(); i < end && first == kNone; i += threadsOfBlock())
    if (holds(i))
      first = i;
  return combineBlock(first, smaller<int64_t>);
}

/// Picks the largest scores of each row, the first of equal ones first. NaN is never larger than a number. The CPU's
/// kernel inserts each score into a sorted list behind all scores that are not less. So a NaN that is inserted while
/// the list is not full, which a NaN is if its index is below `count`, stays at the place of its index, and the scores
/// behind it never pass it. This kernel therefore sorts the scores between such NaNs by themselves.
KERF_KERNEL void topK(TopKParameters p) {
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    const T *x = static_cast<const T *>(p.x) + row * p.size;
    auto isNan = [&](int64_t i) { return load(x + i) != load(x + i); };
    int64_t begin = 0, nan = firstWhere(0, p.count, isNan); // the scores behind the last NaN, and the next NaN
    bool isFirst = true;
    N last = 0;          // the last score that was picked
    int64_t lastAt = -1; // and its index
    for (int64_t j = 0; j < p.count; ++j) {
      int64_t picked = j;
      if (j == nan) {
        begin = j + 1;
        nan = firstWhere(begin, p.count, isNan);
        isFirst = true;
      } else {
        N best = lowest<N>();
        int64_t bestAt = kNone, end = nan == kNone ? p.size : nan;
        for (int64_t i = begin + threadInBlock(); i < end; i += threadsOfBlock()) {
          N score = load(x + i);
          bool isLeft = isFirst || score < last || (score == last && i > lastAt);
          if (score == score && isLeft && (bestAt == kNone || score > best))
            best = score, bestAt = i;
        }
        last = combineBlock(best, larger<N>);
        picked = lastAt = combineBlock(best == last ? bestAt : kNone, smaller<int64_t>);
        isFirst = false;
      }
      if (threadInBlock() > 0)
        continue;
      int64_t to = row * p.count + j;
      static_cast<T *>(p.values)[to] = x[picked];
      if (p.isWide)
        static_cast<int64_t *>(p.indices)[to] = picked;
      else
        static_cast<int32_t *>(p.indices)[to] = int32_t(picked);
    }
  }
}

KERF_KERNEL void topKBackward(TopKBackwardParameters p) {
  for (int64_t i = firstElement(); i < p.rows * p.count; i += elementStep())
    if (int64_t index = integerAt(p.indices, i); index < 0 || index >= p.size)
      fault(p.faults, index, i);
  for (int64_t i = firstElement(); i < p.rows * p.size; i += elementStep()) {
    int64_t row = i / p.size, at0 = row * p.count, column = i - row * p.size;
    N sum = 0;
    for (int64_t j = at0; j < at0 + p.count; ++j)
      if (integerAt(p.indices, j) == column)
        sum += at(p.dy, j);
    put(p.dx, i, sum);
  }
}

/// Writes the slots of this rank: the weighted copy of a token, or 0.
KERF_KERNEL void fillSlots(RoutingParameters p) {
  int64_t first = integerAt(p.offset, 0), n = p.local * p.batch * p.slotCount * p.width;
  for (int64_t i = firstElement(); i < n; i += elementStep()) {
    int64_t row = i / p.width, k = i - row * p.width;
    int64_t group = row / p.slotCount, slot = row - group * p.slotCount;
    int64_t expert = group / p.batch + first, entry = group % p.batch;
    N value = 0;
    if (expert >= 0 && expert < p.experts) {
      int64_t key = entry * p.experts + expert, place = p.starts[key] + slot;
      if (place < p.starts[key + 1]) {
        int64_t choice = p.places[place];
        value = at(p.weights, choice) * at(p.tokens, choice / p.choices * p.width + k);
      }
    }
    put(p.slots, i, value);
  }
}

/// Tells the slot of each choice.
KERF_KERNEL void findSlots(RoutingParameters p) {
  int64_t first = integerAt(p.offset, 0), n = p.batch * p.tokenCount * p.choices;
  for (int64_t i = firstElement(); i < n; i += elementStep()) {
    int64_t key = p.keys[i], entry = key / p.experts, slotRow = -1;
    if (entry < p.batch) { // not a wrong expert's key
      int64_t local = key - entry * p.experts - first, slot = i - p.starts[key];
      if (local >= 0 && local < p.local && slot < p.slotCount)
        slotRow = (local * p.batch + entry) * p.slotCount + slot;
    }
    p.slotOf[p.places[i]] = slotRow;
  }
}

/// Sums the slots of each token's choices.
KERF_KERNEL void combineSlots(RoutingParameters p) {
  for (int64_t i = firstElement(), n = p.batch * p.tokenCount * p.width; i < n; i += elementStep()) {
    int64_t token = i / p.width, k = i - token * p.width;
    N sum = 0;
    for (int64_t choice = token * p.choices; choice < (token + 1) * p.choices; ++choice)
      if (int64_t slot = p.slotOf[choice]; slot >= 0)
        sum += at(p.weights, choice) * at(p.slots, slot * p.width + k);
    put(p.tokens, i, sum);
  }
}

/// Computes the gradient of a choice's weight, the inner product of its slot with its token. One block computes one.
KERF_KERNEL void multiplySlots(RoutingParameters p) {
  for (int64_t choice = block(), n = p.batch * p.tokenCount * p.choices; choice < n; choice += blocks()) {
    int64_t slot = p.slotOf[choice], token = choice / p.choices;
    N sum = 0;
    for (int64_t k = threadInBlock(); k < p.width && slot >= 0; k += threadsOfBlock())
      sum += at(p.slots, slot * p.width + k) * at(p.tokens, token * p.width + k);
    sum = sumOfBlock(sum);
    if (threadInBlock() == 0)
      put(p.weights, choice, sum);
  }
}

} // namespace kerf::runtime::cuda
