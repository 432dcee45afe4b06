// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/PtxReduction.h"
#include "kerf/Package/Ptx.h"

#include <algorithm>

namespace kerf::package {

namespace {
constexpr int64_t kBlocks = 132 * 8; // enough for each multiprocessor of an H100 to have several at a time
constexpr int64_t kWarpThreads = 32, kPackBytes = 16;

int64_t quotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Writes the sizes of the tensor as (outer, kept, inner). Returns false if it does not have this form.
bool splitDimensions(ReducePlan &plan, const Shape &shape, const std::vector<int64_t> &reduced) {
  enum class Part { Outer, Kept, Inner } part = Part::Outer;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0)
      return false;
    if (shape[d] == 1)
      continue;
    bool isReduced = std::find(reduced.begin(), reduced.end(), int64_t(d)) != reduced.end();
    if (!isReduced && part == Part::Inner)
      return false;
    if (!isReduced)
      part = Part::Kept;
    else if (part == Part::Kept)
      part = Part::Inner;
    (part == Part::Outer ? plan.outer : part == Part::Kept ? plan.kept : plan.inner) *= shape[d];
  }
  if (plan.kept == 1) // all elements are one run
    plan.inner *= plan.outer, plan.outer = 1;
  return true;
}

/// Returns how many rows of a table a warp reads at a time, so that its threads have eight columns each: two of 128
/// columns, four of 64. Other rows of few columns are rounded up to such a number.
int64_t rowsOfWarp(int64_t columns) {
  constexpr int64_t kColumns = 8;
  int64_t rows = 1;
  while (columns % kColumns == 0 && rows < kWarpThreads && 2 * rows * columns <= kWarpThreads * kColumns)
    rows *= 2;
  return rows;
}

/// Splits the rows of a table into pieces, so that all blocks together have enough work.
void splitTable(ReducePlan &plan, int64_t width) {
  plan.rowsOfWarp = rowsOfWarp(plan.kept);
  const int64_t fewestRows = 8 * kPtxThreads / kWarpThreads * plan.rowsOfWarp; // of a piece: eight for each thread
  int64_t tiles = plan.tiles(plan.kept % width == 0 ? width : 1);
  plan.pieces = std::min(quotientUp(kBlocks, tiles), quotientUp(plan.outer, fewestRows));
  plan.outerOfPiece = quotientUp(plan.outer, plan.pieces);
  plan.pieces = quotientUp(plan.outer, plan.outerOfPiece);
  plan.innerOfPiece = plan.inner;
}

/// Splits runs of neighbouring elements into pieces. `groups` groups of threads are to have work.
void splitRuns(ReducePlan &plan, int64_t groups, int64_t width) {
  constexpr int64_t kFewestElements = 4096; // of a piece
  int64_t wanted = std::min(quotientUp(groups, plan.kept), quotientUp(plan.outer * plan.inner, kFewestElements));
  if (plan.outer >= wanted) {
    plan.outerOfPiece = quotientUp(plan.outer, wanted);
    plan.innerOfPiece = plan.inner;
  } else {
    plan.outerOfPiece = 1;
    plan.innerOfPiece = quotientUp(quotientUp(plan.inner, quotientUp(wanted, plan.outer)), width) * width;
  }
  plan.innerPieces = quotientUp(plan.inner, plan.innerOfPiece);
  plan.pieces = quotientUp(plan.outer, plan.outerOfPiece) * plan.innerPieces;
}

/// Returns the type in which the runtime's kernel reduces: float32 where a 16-bit tensor has a float32 one beside it.
DType typeOfReduction(DType from, DType to) { return from == to ? from : DType::F32; }

/// Returns the elements of a vector of 16 bytes of the narrowest floating type among the tensors of the kernel's size.
int64_t widthOfTensors(const Function &kernel, int64_t elements) {
  int64_t narrowest = 8;
  for (const std::vector<int> &tensors : {kernel.args, kernel.results})
    for (int tensor : tensors) {
      const Value &value = kernel.values[size_t(tensor)];
      if (value.dtype != DType::Bool && elementsOf(value.shape) == elements)
        narrowest = std::min(narrowest, bytesOf(value.dtype));
    }
  return kPackBytes / narrowest;
}

/// Finds the width with which threads take elements of rows of `columns` elements. Returns false if there is none that
/// combines the elements in the order of the runtime's kernel, which takes packs of `packed` elements of a run.
bool findWidth(PtxReduction &reduction, const Function &kernel, const Shape &shape, int64_t columns, int64_t packed) {
  const ReducePlan &plan = reduction.plan;
  switch (plan.form) {
  case ReduceForm::Table: // its order is that of rows, for any width
    reduction.width = widthOfTensors(kernel, elementsOf(shape));
    while (columns % reduction.width != 0)
      reduction.width /= 2;
    return plan.kept % columns == 0;
  case ReduceForm::Threads:
    return false;
  case ReduceForm::Warps:
  case ReduceForm::Blocks:
    reduction.width = packed;
    // A run begins with single elements where it does not begin at a sector, which has two packs.
    return plan.inner % columns == 0 && columns % packed == 0 && plan.inner % (2 * packed) == 0 &&
           (plan.innerPieces == 1 || plan.innerOfPiece % (2 * packed) == 0);
  }
  return false;
}
} // namespace

int64_t ReducePlan::tiles(int64_t width) const { return quotientUp(kept, kWarpThreads / rowsOfWarp * width); }

std::optional<ReducePlan> reducePlan(const Shape &shape, const std::vector<int64_t> &dimensions, int64_t bytes) {
  constexpr int64_t kMostOfThread = 16, kMostOfWarp = 1024; // elements of a run
  const int64_t width = kPackBytes / bytes;
  ReducePlan plan;
  if (!splitDimensions(plan, shape, dimensions))
    return std::nullopt;
  if (plan.inner == 1) {
    plan.form = ReduceForm::Table;
    splitTable(plan, width);
  } else if (plan.outer * plan.inner <= kMostOfThread) {
    plan.form = ReduceForm::Threads;
    splitRuns(plan, 1, width);
  } else if (plan.inner <= kMostOfWarp) {
    plan.form = ReduceForm::Warps;
    splitRuns(plan, kBlocks * kPtxThreads / kWarpThreads, width);
  } else {
    plan.form = ReduceForm::Blocks;
    splitRuns(plan, kBlocks, width);
  }
  return plan;
}

int64_t PtxReduction::blocks() const {
  int64_t items = plan.pieces * plan.kept;
  if (plan.form == ReduceForm::Table)
    items = plan.tiles(width) * plan.pieces;
  else if (plan.form == ReduceForm::Warps)
    items = quotientUp(items * kWarpThreads, kPtxThreads);
  return std::clamp<int64_t>(items, 1, kMostPtxBlocks);
}

std::optional<PtxReduction> ptxReduction(const Function &kernel) {
  auto space = kernelSpace(kernel);
  if (!space)
    return std::nullopt;
  PtxReduction found;
  int64_t packed = 0;
  const Shape *shape = nullptr;
  std::vector<int> computed;
  /// Adds the reduction to those of the entry. Returns false if it differs from them.
  auto add = [&](int result, const Instruction &reduce) {
    const Value &from = kernel.values[size_t(reduce.operands[0])];
    int64_t bytes = bytesOf(typeOfReduction(from.dtype, kernel.values[size_t(result)].dtype));
    auto plan = reducePlan(from.shape, reduce.attrs["dimensions"].get<std::vector<int64_t>>(), bytes);
    bool fits = plan && from.dtype != DType::Bool && computed.size() < kMostPtxReductions &&
                (computed.empty() ||
                 (*plan == found.plan && (plan->form == ReduceForm::Table || kPackBytes / bytes == packed)));
    if (!fits)
      return false;
    found.plan = *plan, packed = kPackBytes / bytes, shape = &from.shape;
    computed.push_back(result);
    return true;
  };
  auto isArgument = [&](int value) { return std::count(kernel.args.begin(), kernel.args.end(), value) > 0; };
  for (int result : kernel.results) {
    const Instruction *reduce = reductionOf(kernel, result);
    if (reduce && !isArgument(reduce->operands[0]) && !add(result, *reduce))
      return std::nullopt;
  }
  // A reduction of an argument that the entry reads anyway saves a read of it, and one in another type saves a copy.
  auto isRead = [&](int value) {
    return std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
      return instruction.op != "reduce" && instruction.op != "broadcast_in_dim" &&
             std::count(instruction.operands.begin(), instruction.operands.end(), value) > 0;
    });
  };
  for (int result : kernel.results) {
    const Instruction *reduce = reductionOf(kernel, result);
    if (!reduce || !isArgument(reduce->operands[0]))
      continue;
    int argument = reduce->operands[0];
    if (isRead(argument) || kernel.values[size_t(argument)].dtype != kernel.values[size_t(result)].dtype)
      add(result, *reduce);
  }
  for (int result : kernel.results)
    if (std::count(computed.begin(), computed.end(), result) > 0)
      found.results.push_back(result);
  if (found.results.empty() || !findWidth(found, kernel, *shape, space->columns(), packed))
    return std::nullopt;
  return found;
}

} // namespace kerf::package
