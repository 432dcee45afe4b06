// SPDX-License-Identifier: Apache-2.0
// Calls of a package's compiled kernels. A kernel that reduces combines its elements with accumulators (running
// results) that this code prepares, in as many rows at a time as have accumulators at a constant distance. The
// accumulators and their order are those of the op `reduce`.
#include "kerf/Runtime/Cpu/Native.h"
#include "Families.h"
#include "Reduction.h"

#include <atomic>

namespace kerf::runtime::kernels {

namespace {
using package::NativeBuffer;

/// A call of a compiled kernel whose reductions, if any, stay within its rows.
struct NativeCall {
  package::NativeEntry entry;
  const void *const *routines;
  std::vector<NativeBuffer> buffers;
  int64_t rows, columns;
  bool byRows;             // whether only whole rows are computed (package/RowKernel.h)
  std::string_view kernel; // name of the kernel

  /// Runs the kernel over all rows and columns.
  Status run(ThreadTeam *team) const {
    std::atomic<int64_t> wrong = 0;
    auto compute = [&](int64_t row, int64_t endRow, int64_t column, int64_t endColumn) {
      if (int64_t outside = entry(buffers.data(), routines, row, endRow, column, endColumn))
        wrong += outside;
    };
    if (rows == 1 && !byRows)
      forElements(team, columns, [&](int64_t begin, int64_t end) { compute(0, 1, begin, end); });
    else
      forPieces(team, rows, rowsOfTask(columns), [&](int64_t begin, int64_t end) { compute(begin, end, 0, columns); });
    if (wrong > 0)
      return Error{fmt::format("{}: {} indices are outside of their rows of at most {} elements; check the input data "
                               "(a package made with <no-native> says which one)",
                               kernel, wrong.load(), columns)};
    return ok();
  }
};

ReduceKind kindOf(const package::Instruction &reduce) {
  const auto &kind = reduce.attrs["kind"];
  return kind == "sum" ? ReduceKind::Sum : kind == "max" ? ReduceKind::Max : ReduceKind::Min;
}

constexpr int64_t kLanes = package::kReductionLanes;
constexpr int64_t kRowsWithLanes = 64; // most rows at a time whose lanes stay in the first-level cache

/// One result of a compiled kernel that is reduced.
struct NativeReduction {
  TypedReduction steps;
  void *result;                       // the tensor that gets the results
  size_t buffer;                      // index of the kernel's buffer for the accumulators
  int64_t runningOffset, lanesOffset; // offsets of accumulators and lanes in a thread's scratch memory
};

/// A call of a compiled kernel that reduces.
struct ReducingCall {
  NativeCall call;
  ReductionPlan plan;
  std::vector<NativeReduction> reductions;
  int64_t tableOffset, bytesOfThread;
  std::byte *scratch;

  void run(ThreadTeam *team) const {
    forReducedTasks(
        plan, team,
        [&](int64_t thread, int64_t, int64_t results) {
          std::copy(call.buffers.begin(), call.buffers.end(), tableOf(thread));
          for (const NativeReduction &reduction : reductions)
            reduction.steps.begin(at(thread, reduction.runningOffset), results);
        },
        [&](int64_t thread, const ReducedRegion &region) {
          // A kernel call gets the rows of one run, or neighbouring rows of the dimension next to the columns.
          int64_t together =
              plan.rowsOfRun > 1 || plan.sizes.size() == 1 ? plan.rowsOfRun : plan.sizes[plan.sizes.size() - 2];
          int64_t most = !plan.keepsColumns() && plan.rowsOfRun == 1 ? std::min(together, kRowsWithLanes) : together;
          ReducedRegion part = region;
          for (int64_t end = region.row + region.rows; part.row < end; part.row += part.rows) {
            part.rows = std::min({end - part.row, together - part.row % together, most});
            plan.keepsColumns() ? reduceColumns(thread, part) : reduceRows(thread, part);
          }
        },
        [&](int64_t thread, int64_t first, int64_t results) {
          for (const NativeReduction &reduction : reductions)
            reduction.steps.end(at(thread, reduction.runningOffset), results, reduction.result, first);
        });
  }

private:
  std::byte *at(int64_t thread, int64_t offset) const { return scratch + thread * bytesOfThread + offset; }
  NativeBuffer *tableOf(int64_t thread) const { return reinterpret_cast<NativeBuffer *>(at(thread, tableOffset)); }

  /// Sets the kernel's buffer such that it finds the accumulators of row `part.row` at `data`.
  void setBuffer(int64_t thread, const NativeReduction &reduction, const ReducedRegion &part, std::byte *data,
                 int64_t shift, int64_t rowStride) const {
    auto elements = part.row * rowStride + shift;
    auto address = reinterpret_cast<uintptr_t>(data) - uintptr_t(elements * reduction.steps.runningBytes);
    tableOf(thread)[reduction.buffer] = {reinterpret_cast<void *>(address), rowStride};
  }
  void compute(int64_t thread, const ReducedRegion &part) const {
    call.entry(tableOf(thread), call.routines, part.row, part.row + part.rows, part.column, part.column + part.columns);
  }

  void reduceColumns(int64_t thread, const ReducedRegion &part) const {
    int64_t rowStride = plan.sizes.size() > 1 ? plan.strides[plan.sizes.size() - 2] : 0;
    for (const NativeReduction &reduction : reductions)
      setBuffer(thread, reduction, part, at(thread, reduction.runningOffset), part.first - plan.placeOf(part.row),
                rowStride);
    compute(thread, part);
  }

  void reduceRows(int64_t thread, const ReducedRegion &part) const {
    int64_t rowStride = plan.rowsOfRun > 1 ? 0 : kLanes;
    for (const NativeReduction &reduction : reductions) {
      std::byte *lanes = at(thread, reduction.lanesOffset);
      reduction.steps.begin(lanes, part.rows / plan.rowsOfRun * kLanes);
      setBuffer(thread, reduction, part, lanes, 0, rowStride);
    }
    compute(thread, part);
    for (const NativeReduction &reduction : reductions)
      reduction.steps.addLanes(plan, at(thread, reduction.runningOffset), at(thread, reduction.lanesOffset), part);
  }
};

PlannedKernel plannedReduction(const BindRequest &request, NativeCall call) {
  const package::KernelSpace &space = request.native->space;
  const package::Function &function = *request.native->function;
  int64_t threads = threadsOf(request.team);
  ReductionPlan plan(space.sizes, space.reduced, threads);
  std::vector<NativeReduction> reductions;
  ScratchLayout ofThread;
  int64_t tableOffset = ofThread.take(int64_t(call.buffers.size() * sizeof(NativeBuffer)));
  for (size_t r = 0; r < function.results.size(); ++r) {
    const package::Instruction *reduce = package::reductionOf(function, function.results[r]);
    if (!reduce)
      continue;
    DType from = function.values[size_t(reduce->operands[0])].dtype == DType::F64 ? DType::F64 : DType::F32;
    TypedReduction steps = typedReduction(kindOf(*reduce), from, request.results[r].dtype);
    int64_t running = ofThread.take(plan.resultsOfTask() * steps.runningBytes);
    int64_t lanes = ofThread.take(plan.keepsColumns() ? 0 : kRowsWithLanes * kLanes * steps.runningBytes);
    if (request.results[r].elements() == 0) // then the other results have no elements, either
      return {[] { return ok(); }};
    reductions.push_back({steps, request.results[r].data, function.args.size() + r, running, lanes});
  }
  ScratchLayout layout;
  auto *scratch = scratchAt<std::byte>(request.scratch, layout.take(threads * ofThread.bytes()));
  ReducingCall reducing{std::move(call), std::move(plan),  std::move(reductions),
                        tableOffset,     ofThread.bytes(), scratch};
  return {[reducing = std::move(reducing), team = request.team] {
            reducing.run(team);
            return ok();
          },
          layout.bytes()};
}

/// Returns the distance from one row of a kernel's argument or result, a value of its function, to the next.
int64_t rowStride(const package::KernelSpace &space, int value, const TensorView &view) {
  if (space.roles.empty())
    return space.columns();
  switch (space.roles[size_t(value)]) {
  case package::RowRole::One:
  case package::RowRole::Shared:
    return 0;
  case package::RowRole::PerRow:
    return 1;
  default:
    return view.shape[1];
  }
}
} // namespace

Result<PlannedKernel> planNative(const BindRequest &request) {
  const NativeKernel &kernel = *request.native;
  const package::KernelSpace &space = kernel.space;
  NativeCall call{kernel.entry,         kernel.routines,      {}, space.rows(), space.columns(),
                  !space.roles.empty(), kernel.function->name};
  auto add = [&](const std::vector<TensorView> &views, const std::vector<int> &values) {
    for (size_t i = 0; i < views.size(); ++i)
      call.buffers.push_back({views[i].data, rowStride(space, values[i], views[i])});
  };
  add(request.operands, kernel.function->args);
  add(request.results, kernel.function->results);
  if (!space.reduced.empty())
    return plannedReduction(request, std::move(call));
  return PlannedKernel{[call = std::move(call), team = request.team] { return call.run(team); }};
}

} // namespace kerf::runtime::kernels
