// SPDX-License-Identifier: Apache-2.0
// The order in which reductions combine elements, in one place: for the op, and for kernels of a package that reduce
// what they compute. It depends on the shape alone.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// A tensor as rows of its innermost dimension: an element goes into the result's element that is the sum of index *
/// stride over `sizes`. The last stride is 1 where columns are kept, and 0 where rows are reduced. Tasks are ranges of
/// the outermost dimension that is kept.
struct ReductionPlan {
  ReductionPlan(Shape sizes, std::vector<int64_t> strides, int64_t threads);

  Shape sizes;
  std::vector<int64_t> strides;
  int64_t rows = 1; // of the tensor
  int64_t rowsOfRun =
      1;          // neighbouring rows that go into the same elements; rows that are reduced are as if they were one
  size_t cut = 0; // the dimension that tasks cut; none where nothing is kept
  int64_t perTask = 1, tasks = 1;

  int64_t columns() const { return sizes.back(); }
  bool keepsColumns() const { return strides.back() != 0; }
  bool cutsColumns() const { return cut + 1 == sizes.size(); }
  bool isWhole() const { return cut == sizes.size(); } // one task
  /// The result's element of a row's first column.
  int64_t placeOf(int64_t row) const {
    int64_t place = 0;
    for (size_t d = sizes.size() - 1; d-- > std::min(cut, sizes.size() - 1); row /= sizes[d])
      place += row % sizes[d] * strides[d];
    return place;
  }
  /// Elements of the result that a task makes.
  int64_t resultsOfTask() const { return isWhole() ? 1 : perTask * strides[cut]; }
};

/// A part of a task.
struct ReducedRegion {
  int64_t row, rows, column, columns;
  int64_t first; // element of the result that the task's running results begin with
};

/// One reduction, its types known.
struct Fold {
  int64_t runningBytes; // of a running result
  void (*begin)(void *running, int64_t results);
  /// Combines a region at `x`, in rows of the whole tensor.
  void (*add)(const ReductionPlan &plan, void *running, const void *x, const ReducedRegion &region);
  /// The same of rows that are reduced, of which each run has its lanes ready.
  void (*addLanes)(const ReductionPlan &plan, void *running, const void *lanes, const ReducedRegion &region);
  void (*end)(const void *running, int64_t results, void *result, int64_t first);
};
enum class ReduceKind { Sum, Max, Min };
/// `from`: f32, f64, integers and bool; `to`: the same, or of f32 a 16-bit float, too.
Fold foldOf(ReduceKind kind, DType from, DType to);

/// begin(thread, first, results), reduce(thread, region) for regions that make up what the task reduces, end as begin.
template <typename Begin, typename Reduce, typename End>
void forReducedTasks(const ReductionPlan &plan, Team *team, const Begin &begin, const Reduce &reduce, const End &end) {
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
