// SPDX-License-Identifier: Apache-2.0
// A row is cut into groups: element i is in group i modulo the number of groups, so that the largest element of each
// group comes from maxima of whole vectors. A bound that at least `count` groups reach is found by halving an interval,
// so that only the elements of groups above the bound have to be looked at. They are sorted as keys of 64 bits, number
// and place in one.
#include "PickLargest.h"
#include "Simd.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace kerf::runtime::kernels {

namespace {
constexpr int64_t kFewestGroups = 64;
constexpr int64_t kMostLanes = 8; // keys that are read together
constexpr int64_t kFewKeys = 160; // so many keys are sorted by counting for each one how many are larger

/// Returns an integer whose order is that of the numbers; both zeros have the same one.
[[gnu::always_inline]] inline int32_t orderOf(float x) {
  auto raw = std::bit_cast<int32_t>(x + 0.0f);
  return raw ^ ((raw >> 31) & std::numeric_limits<int32_t>::max());
}
/// Returns a key that is larger for larger numbers, and among equal ones for the first.
[[gnu::always_inline]] inline int64_t keyOf(int32_t order, int64_t place) {
  return int64_t(uint64_t(uint32_t(order)) << 32 | uint32_t(~uint32_t(place)));
}
int64_t placeOf(int64_t key) { return int64_t(~uint32_t(uint64_t(key))); }

/// Returns the number of groups of a row: more of them take longer to be bounded, and fewer have more elements each.
int64_t groupsOf(int64_t size, int64_t count) {
  int64_t groups = kFewestGroups;
  while (groups * groups < count * size / 2 || groups < count + count / 4)
    groups *= 2;
  return std::min(groups, size);
}

struct Picking {
  const float *row;
  int64_t size, count, groups;
  float *largest = nullptr; // of each group
  int32_t *order = nullptr; // of `largest`
  int32_t *above = nullptr; // the groups above the bound
  int64_t *keys = nullptr;  // of the elements above the bound
  int64_t found = 0;        // the number of keys
  int32_t bound = 0;        // at least `count` elements are not below it
  bool ordered = true;      // whether no number is NaN
};

/// Finds a bound that at least `count` groups reach.
[[gnu::always_inline]] inline void boundGroups(Picking *p) {
  constexpr int32_t kMagnitude = std::numeric_limits<int32_t>::max();
  const int64_t groups = p->groups;
  float *largest = p->largest;
  std::copy_n(p->row, groups, largest);
  int32_t greatest = 0; // magnitude of all numbers
  for (int64_t first = 0; first < p->size; first += groups) {
    const float *x = p->row + first;
    const int64_t here = std::min(groups, p->size - first);
#pragma omp simd reduction(max : greatest)
    for (int64_t j = 0; j < here; ++j) {
      greatest = std::max(greatest, std::bit_cast<int32_t>(x[j]) & kMagnitude);
      largest[j] = x[j] > largest[j] ? x[j] : largest[j];
    }
  }
  p->ordered = greatest <= std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
  if (!p->ordered)
    return;
  int32_t *order = p->order;
  int32_t low = std::numeric_limits<int32_t>::max(), high = std::numeric_limits<int32_t>::min();
#pragma omp simd reduction(min : low) reduction(max : high)
  for (int64_t j = 0; j < groups; ++j) {
    order[j] = orderOf(largest[j]);
    low = std::min(low, order[j]);
    high = std::max(high, order[j]);
  }
  // At least `count` groups reach `low`, and fewer reach `end`. The first question is whether the rest are equal, as
  // the zeros of a sparse row are.
  int64_t end = int64_t(high) + 1, reached = groups;
  const int64_t enough = p->count + p->count / 8;
  while (reached > enough && end - low > 1) {
    const auto middle = reached == groups ? low + 1 : int32_t(low + (end - low) / 2);
    int32_t reach = 0;
#pragma omp simd reduction(+ : reach)
    for (int64_t j = 0; j < groups; ++j)
      reach += order[j] >= middle;
    if (reach >= p->count) {
      low = middle;
      reached = reach;
    } else {
      end = middle;
    }
  }
  p->bound = low;
}

/// Writes the keys of all elements above the bound.
[[gnu::always_inline]] inline void collect(Picking *p) {
  int64_t groups = 0;
  for (int64_t j = 0; j < p->groups; ++j) {
    p->above[groups] = int32_t(j);
    groups += p->order[j] > p->bound;
  }
  int64_t found = 0;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = p->above[g]; i < p->size; i += p->groups) {
      const int32_t order = orderOf(p->row[i]);
      p->keys[found] = keyOf(order, i);
      found += order > p->bound;
    }
  p->found = found;
}

/// Sorts few keys from the largest on into `sorted`, of which the first `count` are wanted. Up to
/// kMostLanes - 1 keys more are read.
template <Isa isa>
[[gnu::always_inline]] inline void sortFew(IsaTag<isa>, const int64_t *keys, int64_t found, int64_t count,
                                           int64_t *sorted) {
  constexpr int64_t kGroup = isa == Isa::Avx512 ? 8 : 4;
  typedef int64_t Group __attribute__((vector_size(kGroup * sizeof(int64_t))));
  for (int64_t first = 0; first < found; first += kGroup) {
    Group own, larger = {};
    std::memcpy(&own, keys + first, sizeof own);
    for (int64_t j = 0; j < found; ++j)
      larger -= keys[j] > own;
    int64_t places[kGroup];
    std::memcpy(places, &larger, sizeof places);
    for (int64_t i = first; i < std::min(found, first + kGroup); ++i)
      if (places[i - first] < count)
        sorted[places[i - first]] = keys[i];
  }
}

void sortMany(int64_t *keys, int64_t found, int64_t count) {
  if (found > count)
    std::nth_element(keys, keys + count, keys + found, std::greater<>());
  std::sort(keys, keys + count, std::greater<>());
}
} // namespace

/// Returns the bytes of memory for the keys of a row, and for the few that are sorted.
static int64_t bytesOfKeys(int64_t size) { return (size + kMostLanes + kFewKeys) * int64_t(sizeof(int64_t)); }

int64_t bytesToPick(int64_t size) { return bytesOfKeys(size) + 3 * size * int64_t(sizeof(int32_t)); }

bool pickLargest(const float *row, int64_t size, int64_t count, float *values, int32_t *places, std::byte *memory) {
  Picking p{row, size, count, groupsOf(size, count)};
  p.keys = reinterpret_cast<int64_t *>(memory);
  p.largest = reinterpret_cast<float *>(memory + bytesOfKeys(size));
  p.order = reinterpret_cast<int32_t *>(p.largest + p.groups);
  p.above = p.order + p.groups;
  int64_t *sorted = p.keys;
  dispatch(
      [](auto isa, Picking *p, int64_t **sorted) {
        boundGroups(p);
        if (!p->ordered)
          return;
        collect(p);
        if (p->found <= kFewKeys)
          sortFew(isa, p->keys, p->found, p->count, *sorted += p->size + kMostLanes);
      },
      &p, &sorted);
  if (!p.ordered)
    return false;
  const int64_t above = std::min(p.found, count);
  if (p.found > kFewKeys)
    sortMany(p.keys, p.found, above);
  for (int64_t i = 0; i < above; ++i) {
    places[i] = int32_t(placeOf(sorted[i]));
    values[i] = row[places[i]];
  }
  for (int64_t i = 0, next = above; next < count; ++i)
    if (orderOf(row[i]) == p.bound) {
      places[next] = int32_t(i);
      values[next++] = row[i];
    }
  return true;
}

} // namespace kerf::runtime::kernels
