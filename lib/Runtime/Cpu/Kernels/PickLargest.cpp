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
#include <functional>
#include <limits>
#include <numeric>

namespace kerf::runtime::kernels {

namespace {
constexpr int64_t kFewestGroups = 64;
constexpr int32_t kMagnitude = std::numeric_limits<int32_t>::max();

/// Returns an integer whose order is that of the numbers; both zeros have the same one.
[[gnu::always_inline]] inline int32_t orderOf(float x) {
  auto raw = std::bit_cast<int32_t>(x + 0.0f);
  return raw ^ ((raw >> 31) & kMagnitude);
}
/// Returns a key that is larger for larger numbers, and among equal ones for the first.
[[gnu::always_inline]] inline int64_t keyOf(int32_t order, int64_t place) {
  return int64_t(uint64_t(uint32_t(order)) << 32 | uint32_t(~uint32_t(place)));
}
int64_t placeOf(int64_t key) { return int64_t(~uint32_t(uint64_t(key))); }

/// Returns the number of groups of a row, a power of two: more of them take longer to be bounded, and fewer have more
/// elements each.
int64_t groupsOf(int64_t size, int64_t count) {
  int64_t groups = kFewestGroups;
  while (groups * groups < count * size || groups < count + count / 4)
    groups *= 2;
  return groups;
}

struct Picking {
  const float *row;
  int64_t size, count, groups;
  int32_t *order = nullptr; // of the largest number of each group
  uint8_t *above = nullptr; // whether the group has numbers above the bound
  int64_t *keys = nullptr;  // of the numbers above the bound
  int64_t found = 0;        // the number of keys
  int32_t bound = 0;        // at least `count` numbers are not below it
  bool ordered = true;      // whether no number is NaN
};

/// Vectors of 32-bit elements in one register.
template <Isa isa> struct Registers {
  static constexpr int64_t kLanes = isa == Isa::Avx512 ? 16 : isa == Isa::Avx2 ? 8 : 4;
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
  typedef int32_t Words __attribute__((vector_size(kLanes * sizeof(int32_t)), aligned(alignof(int32_t)), may_alias));

  [[gnu::always_inline]] static inline Words words(const int32_t *from) {
    return *reinterpret_cast<const Words *>(from);
  }
  [[gnu::always_inline]] static inline Words max(Words a, Words b) { return a > b ? a : b; }
  [[gnu::always_inline]] static inline int32_t largestOf(Words x) {
    int32_t all[kLanes];
    std::memcpy(all, &x, sizeof all);
    return *std::max_element(all, all + kLanes);
  }
  [[gnu::always_inline]] static inline int64_t sumOf(Words x) {
    int32_t all[kLanes];
    std::memcpy(all, &x, sizeof all);
    return std::accumulate(all, all + kLanes, int64_t{0});
  }
};

/// Writes the order of the largest number of each group.
template <Isa isa> [[gnu::always_inline]] inline void findLargest(Picking *p) {
  using R = Registers<isa>;
  using Floats = typename R::Floats;
  using Words = typename R::Words;
  const int64_t groups = p->groups, whole = p->size / groups * groups;
  const float *row = p->row;
  int32_t *order = p->order;
  Words greatest = {}; // magnitudes of all numbers
  for (int64_t j = 0; j < groups; j += R::kLanes) {
    Floats largest = *reinterpret_cast<const Floats *>(row + j);
    for (int64_t i = j; i < whole; i += groups) {
      Floats x = *reinterpret_cast<const Floats *>(row + i);
      greatest = R::max(reinterpret_cast<Words>(x) & kMagnitude, greatest);
      largest = x > largest ? x : largest;
    }
    auto raw = reinterpret_cast<Words>(largest + 0.0f);
    *reinterpret_cast<Words *>(order + j) = raw ^ ((raw >> 31) & kMagnitude);
  }
  int32_t most = R::largestOf(greatest);
  for (int64_t i = whole; i < p->size; ++i) {
    most = std::max(most, std::bit_cast<int32_t>(row[i]) & kMagnitude);
    order[i - whole] = std::max(order[i - whole], orderOf(row[i]));
  }
  p->ordered = most <= std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
}

/// Finds a bound that at least `count` groups reach, and writes which groups have numbers above it.
template <Isa isa> [[gnu::always_inline]] inline void findBound(Picking *p) {
  using R = Registers<isa>;
  using Words = typename R::Words;
  const int32_t *order = p->order;
  const int64_t groups = p->groups, count = p->count;
  Words most = R::words(order), least = ~most;
  for (int64_t j = R::kLanes; j < groups; j += R::kLanes) {
    most = R::max(most, R::words(order + j));
    least = R::max(least, ~R::words(order + j));
  }
  // At least `count` groups reach `low`, and fewer reach `end`. The first question is whether the rest are equal, as
  // the zeros of a sparse row are.
  int32_t low = ~R::largestOf(least);
  int64_t end = int64_t(R::largestOf(most)) + 1, reached = groups;
  const int64_t enough = count + count / 4;
  while (reached > enough && end - low > 1) {
    const auto middle = reached == groups ? low + 1 : int32_t(low + (end - low) / 2);
    Words reach = {};
    for (int64_t j = 0; j < groups; j += R::kLanes)
      reach -= R::words(order + j) >= middle;
    const int64_t all = R::sumOf(reach);
    if (all >= count) {
      low = middle;
      reached = all;
    } else {
      end = middle;
    }
  }
  p->bound = low;
  uint8_t *above = p->above;
  for (int64_t j = 0; j < groups; ++j)
    above[j] = order[j] > low;
}

/// Writes the keys of all numbers above the bound.
[[gnu::always_inline]] inline void collect(Picking *p) {
  const int32_t bound = p->bound;
  const int64_t groups = p->groups, size = p->size;
  const float *row = p->row;
  int64_t *keys = p->keys, found = 0;
  for (int64_t first = 0; first < groups; first += int64_t(sizeof(uint64_t))) {
    uint64_t flags;
    std::memcpy(&flags, p->above + first, sizeof flags);
    for (; flags; flags &= flags - 1)
      for (int64_t i = first + std::countr_zero(flags) / 8; i < size; i += groups) {
        const int32_t order = orderOf(row[i]);
        keys[found] = keyOf(order, i);
        found += order > bound;
      }
  }
  p->found = found;
}

/// Sorts few keys from the largest on into `sorted`, of which the first `count` are wanted. Up to kMostLanes - 1 keys
/// more are read.
template <Isa isa>
[[gnu::always_inline]] inline void sortFew(const int64_t *keys, int64_t found, int64_t count, int64_t *sorted) {
  constexpr int64_t kLanes = isa == Isa::Avx512 ? kMostLanes : kMostLanes / 2;
  typedef int64_t Keys __attribute__((vector_size(kLanes * sizeof(int64_t))));
  for (int64_t first = 0; first < found; first += kLanes) {
    Keys own, larger = {};
    std::memcpy(&own, keys + first, sizeof own);
    for (int64_t j = 0; j < found; ++j)
      larger -= keys[j] > own;
    int64_t places[kLanes];
    std::memcpy(places, &larger, sizeof places);
    for (int64_t i = first; i < std::min(found, first + kLanes); ++i)
      if (places[i - first] < count)
        sorted[places[i - first]] = keys[i];
  }
}

void sortMany(int64_t *keys, int64_t found, int64_t count) {
  if (found > count)
    std::nth_element(keys, keys + count, keys + found, std::greater<>());
  std::sort(keys, keys + count, std::greater<>());
}

/// Makes keys of all numbers of a row that is too short for groups.
void collectAll(Picking &p) {
  for (int64_t i = 0; i < p.size; ++i) {
    p.ordered &= p.row[i] == p.row[i];
    p.keys[i] = keyOf(orderOf(p.row[i]), i);
  }
  p.found = p.size;
}
} // namespace

bool pickLargest(const float *row, int64_t size, int64_t count, float *values, int32_t *places, std::byte *memory) {
  Picking p{row, size, count, groupsOf(size, count)};
  p.keys = reinterpret_cast<int64_t *>(memory);
  p.order = reinterpret_cast<int32_t *>(memory + bytesOfKeys(size));
  p.above = reinterpret_cast<uint8_t *>(p.order + p.groups);
  int64_t *sorted = p.keys;
  if (p.groups > size / 2)
    collectAll(p);
  else
    dispatch(
        []<Isa isa>(IsaTag<isa>, Picking *p) {
          findLargest<isa>(p);
          if (!p->ordered)
            return;
          findBound<isa>(p);
          collect(p);
          if (p->found <= kFewKeys)
            sortFew<isa>(p->keys, p->found, p->count, p->keys + p->size + kMostLanes);
        },
        &p);
  if (!p.ordered)
    return false;
  const int64_t above = std::min(p.found, count);
  if (p.found <= kFewKeys && p.groups <= size / 2)
    sorted += size + kMostLanes;
  else
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
