// SPDX-License-Identifier: Apache-2.0
#include "Reduction.h"
#include "Combine.h"
#include "Simd.h"

#include "kerf/Package/Half.h"
#include "kerf/Package/Native.h"

namespace kerf::runtime::kernels {

namespace {
/// Number of accumulators (lanes) of a reduced row; they are combined in order at the row's end. The fixed number gives
/// the same bits on every machine, and lets the compiler vectorize.
constexpr int64_t kLanes = 16;
static_assert(kLanes == package::kReductionLanes); // compiled kernels have as many

/// Combines the lanes of a row, in order.
template <typename Op, typename A> [[gnu::always_inline]] inline A combinedLanes(const A *lanes) {
  A result = lanes[0];
  for (int64_t l = 1; l < kLanes; ++l)
    result = Op::combine(result, lanes[l]);
  return result;
}

template <typename T, typename Op> [[gnu::always_inline]] inline auto reducedRow(const T *x, int64_t n) {
  using A = typename Op::template Accumulator<T>;
  A lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l)
    lanes[l] = Op::template first<T>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] = Op::combine(lanes[l], widened<A>(x[i + l]));
  for (; i < n; ++i)
    lanes[i % kLanes] = Op::combine(lanes[i % kLanes], widened<A>(x[i]));
  return combinedLanes<Op>(lanes);
}

template <typename T, typename Op, typename A>
[[gnu::always_inline]] inline void addColumns(const ReductionPlan &plan, A *running, const T *x,
                                              const ReducedRegion &region) {
  for (int64_t r = region.row; r < region.row + region.rows; ++r, x += plan.columns()) {
    A *row = running + (plan.placeOf(r) + region.column - region.first);
#pragma omp simd
    for (int64_t j = 0; j < region.columns; ++j)
      row[j] = Op::combine(row[j], widened<A>(x[j]));
  }
}

template <typename T, typename Op, typename A>
[[gnu::always_inline]] inline void addRows(const ReductionPlan &plan, A *running, const T *x,
                                           const ReducedRegion &region) {
  int64_t elements = plan.rowsOfRun * plan.columns();
  for (int64_t r = region.row; r < region.row + region.rows; r += plan.rowsOfRun, x += elements) {
    A &result = running[plan.placeOf(r) - region.first];
    result = Op::combine(result, reducedRow<T, Op>(x, elements));
  }
}

template <typename T> [[gnu::always_inline]] inline void store(T value, T *to) { *to = value; }
struct AsBf16 {
  uint16_t bits;
};
struct AsF16 {
  uint16_t bits;
};
inline void store(float value, AsBf16 *to) { to->bits = bf16FromFloat(value); }
inline void store(float value, AsF16 *to) { to->bits = f16FromFloat(value); }

/// Returns the steps of the reduction `Op` from elements of type T to results of type To.
template <typename T, typename To, typename Op> TypedReduction reductionSteps() {
  using A = typename Op::template Accumulator<T>;
  return {
      int64_t(sizeof(A)),
      [](void *running, int64_t results) { std::fill_n(static_cast<A *>(running), results, Op::template first<T>()); },
      [](const ReductionPlan &plan, void *running, const void *x, const ReducedRegion &region) {
        dispatch(
            [](auto, const ReductionPlan *plan, A *running, const T *x, ReducedRegion region) {
              plan->keepsColumns() ? addColumns<T, Op>(*plan, running, x, region)
                                   : addRows<T, Op>(*plan, running, x, region);
            },
            &plan, static_cast<A *>(running), static_cast<const T *>(x), region);
      },
      [](const ReductionPlan &plan, void *running, const void *lanes, const ReducedRegion &region) {
        const A *of = static_cast<const A *>(lanes);
        for (int64_t r = region.row; r < region.row + region.rows; r += plan.rowsOfRun, of += kLanes) {
          A &result = static_cast<A *>(running)[plan.placeOf(r) - region.first];
          result = Op::combine(result, combinedLanes<Op>(of));
        }
      },
      [](const void *running, int64_t results, void *result, int64_t first) {
        for (int64_t i = 0; i < results; ++i)
          store(T(static_cast<const A *>(running)[i]), static_cast<To *>(result) + first + i);
      }};
}

template <typename T, typename To = T> TypedReduction reductionOfKind(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return reductionSteps<T, To, SumOf>();
  case ReduceKind::Max:
    return reductionSteps<T, To, MaxOf>();
  default:
    return reductionSteps<T, To, MinOf>();
  }
}
} // namespace

ReductionPlan::ReductionPlan(Shape sizesGiven, std::vector<int64_t> stridesGiven, int64_t threads)
    : sizes(std::move(sizesGiven)), strides(std::move(stridesGiven)) {
  rows = product(sizes, 0, sizes.size() - 1);
  for (size_t d = sizes.size() - 1; d-- > 0 && strides[d] == 0;)
    rowsOfRun *= sizes[d];
  cut = size_t(std::find_if(strides.begin(), strides.end(), [](int64_t stride) { return stride != 0; }) -
               strides.begin());
  if (isWhole())
    return;
  // If the kept dimension lies inside a reduced one, a task reads memory in strided pieces. Long pieces are read
  // faster, but they need more running results, which should stay in the first-level cache.
  constexpr int64_t kFewestElements = 1024, kFewestColumns = 64, kMostResults = 4096, kTasksOfThread = 4;
  int64_t elements = std::max<int64_t>(product(sizes, cut + 1), 1); // for each index of the kept dimension
  if (cut == 0 && !cutsColumns()) {
    perTask = rowsOfTask(elements);
  } else {
    int64_t fewest = cutsColumns() ? kFewestColumns : std::max<int64_t>(1, kFewestElements / elements);
    int64_t share =
        threads == 1 ? sizes[cut] : (sizes[cut] / (threads * kTasksOfThread) + fewest - 1) / fewest * fewest;
    int64_t most = std::max<int64_t>(fewest, kMostResults / std::max<int64_t>(strides[cut], 1));
    perTask = std::clamp(share, fewest, most);
  }
  perTask = std::min(perTask, sizes[cut]);
  tasks = perTask ? (sizes[cut] + perTask - 1) / perTask : 0;
}

TypedReduction typedReduction(ReduceKind kind, DType from, DType to) {
  switch (from) {
  case DType::F64:
    return reductionOfKind<double>(kind);
  case DType::F32:
    return to == DType::BF16  ? reductionOfKind<float, AsBf16>(kind)
           : to == DType::F16 ? reductionOfKind<float, AsF16>(kind)
                              : reductionOfKind<float>(kind);
  case DType::I64:
    return reductionOfKind<int64_t>(kind);
  case DType::I32:
    return reductionOfKind<int32_t>(kind);
  case DType::I16:
    return reductionOfKind<int16_t>(kind);
  case DType::I8:
    return reductionOfKind<int8_t>(kind);
  case DType::U64:
    return reductionOfKind<uint64_t>(kind);
  case DType::U32:
    return reductionOfKind<uint32_t>(kind);
  case DType::U16:
    return reductionOfKind<uint16_t>(kind);
  case DType::U8:
    return reductionOfKind<uint8_t>(kind);
  default:
    return reductionOfKind<Bool8>(kind);
  }
}

} // namespace kerf::runtime::kernels
