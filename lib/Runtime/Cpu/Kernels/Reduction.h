// SPDX-License-Identifier: Apache-2.0
// The order in which reductions combine elements, shared by the op `reduce` and by compiled kernels that reduce what
// they compute. The order depends only on the shape.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// How a tensor is reduced to a smaller one, and how the work is split into tasks. The tensor is seen as rows along its
/// innermost dimension, whose elements are the columns. An element with the index i is combined into the result's
/// element number i[0] * strides[0] + i[1] * strides[1] + ... A dimension is reduced if its stride is 0, and kept
/// otherwise. The last stride is 1 if columns are kept. Each task is a range of the outermost kept dimension.
struct ReductionPlan {
  /// Plans the reduction of a tensor of shape `sizes` for a team of `threads` threads.
  ReductionPlan(Shape sizes, std::vector<int64_t> strides, int64_t threads);

  Shape sizes;                  // shape of the tensor
  std::vector<int64_t> strides; // each dimension's stride in the result, in elements; 0: the dimension is reduced
  int64_t rows = 1;             // number of rows of the tensor
  /// Number of consecutive rows (a run) that are combined into the same elements of the result. If columns are reduced,
  /// too, a run is reduced as if it were one long row.
  int64_t rowsOfRun = 1;
  size_t cut = 0;      // the dimension that is split among tasks; sizes.size() if no dimension is kept
  int64_t perTask = 1; // indices of dimension `cut` in each task
  int64_t tasks = 1;   // number of tasks

  /// Returns the number of columns of a row.
  int64_t columns() const { return sizes.back(); }
  /// Returns whether the innermost dimension is kept.
  bool keepsColumns() const { return strides.back() != 0; }
  /// Returns whether tasks are ranges of columns.
  bool cutsColumns() const { return cut + 1 == sizes.size(); }
  /// Returns whether no dimension is kept, so that one task does all the work.
  bool isWhole() const { return cut == sizes.size(); }
  /// Returns the number of the result's element into which the first column of row `row` is combined.
  int64_t placeOf(int64_t row) const {
    int64_t place = 0;
    for (size_t d = sizes.size() - 1; d-- > std::min(cut, sizes.size() - 1); row /= sizes[d])
      place += row % sizes[d] * strides[d];
    return place;
  }
  /// Returns the number of the result's elements that one task computes.
  int64_t resultsOfTask() const { return isWhole() ? 1 : perTask * strides[cut]; }
};

/// A part of a task's elements: `rows` rows from row number `row` on, and in each of them `columns` columns from column
/// number `column` on.
struct ReducedRegion {
  int64_t row, rows, column, columns;
  int64_t first; // number of the first element of the result that the task computes
};

/// The steps of a reduction for fixed element types. A running result is the accumulator of one element of the result.
struct TypedReduction {
  /// Bytes of one running result.
  int64_t runningBytes;
  /// Sets `results` running results to the neutral element.
  void (*begin)(void *running, int64_t results);
  /// Combines a region into the running results. `x` is the address of the region's first element in the tensor.
  void (*add)(const ReductionPlan &plan, void *running, const void *x, const ReducedRegion &region);
  /// Combines a region of reduced columns into the running results, where a compiled kernel has already combined each
  /// run of rows into kReductionLanes accumulators (lanes).
  void (*addLanes)(const ReductionPlan &plan, void *running, const void *lanes, const ReducedRegion &region);
  /// Converts `results` running results to the result's type, and writes them to `result` from element `first` on.
  void (*end)(const void *running, int64_t results, void *result, int64_t first);
};
/// The operation that a reduction applies.
enum class ReduceKind { Sum, Max, Min };
/// Returns the steps of a reduction. `from` is the operand's element type: f32, f64, an integer type or bool. `to` is
/// the result's: the same type, or a 16-bit float for f32.
TypedReduction typedReduction(ReduceKind kind, DType from, DType to);

/// Runs the tasks of a reduction on a team. For each task, calls begin(thread, first, results), then reduce(thread,
/// region) for regions that together are the task's elements, then end(thread, first, results). The task computes the
/// `results` elements of the result from number `first` on.
template <typename Begin, typename Reduce, typename End>
void forReducedTasks(const ReductionPlan &plan, ThreadTeam *team, const Begin &begin, const Reduce &reduce,
                     const End &end) {
  forTasks(team, plan.tasks, [&](int64_t task, int64_t thread) {
    int64_t from = task * plan.perTask, columns = plan.columns();
    int64_t count = plan.isWhole() ? 1 : std::min(plan.perTask, plan.sizes[plan.cut] - from);
    int64_t stride = plan.isWhole() ? 1 : plan.strides[plan.cut], first = from * stride;
    begin(thread, first, count * stride);
    if (plan.isWhole()) {
      reduce(thread, ReducedRegion{0, plan.rows, 0, columns, first});
    } else if (plan.cutsColumns()) {
      reduce(thread, ReducedRegion{0, plan.rows, from, count, first});
    } else {
      int64_t outer = product(plan.sizes, 0, plan.cut);
      int64_t inner = product(plan.sizes, plan.cut + 1, plan.sizes.size() - 1);
      for (int64_t o = 0; o < outer; ++o)
        reduce(thread, ReducedRegion{(o * plan.sizes[plan.cut] + from) * inner, count * inner, 0, columns, first});
    }
    end(thread, first, count * stride);
  });
}

} // namespace kerf::runtime::kernels
