// SPDX-License-Identifier: Apache-2.0
// kerf-fuse-rows (device level): turns the ops of codecs over the blocks of a gradient into calls of row kernels
// (kerf/Package/RowKernel.h).
#include "KernelOutline.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"
#include "kerf/Package/Native.h"
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_FUSEROWS
#include "kerf/Transforms/Passes.h.inc"

namespace {
constexpr size_t kMostRowOps = 256;                   // limit for a kernel, which bounds the time of its compilation
constexpr int64_t kMostBytesOfRow = int64_t{1} << 20; // of all values of a kernel, which bounds what a thread keeps

/// Rows of the matrix that an op works on. `columns` is the size of a row where the op needs all of it, else 0, and
/// `width` is the largest number of elements that it has in a row: 0 where it works on one element of each row.
struct RowSpace {
  int64_t rows = 0, columns = 0, width = 0;
  int64_t bytes = 0; // of a row of all results
};

/// Returns the rows of values of which an op may have some of a row's elements.
std::optional<RowSpace> partSpaceOf(const Shape &shape) {
  if (shape.size() == 1 && shape[0] > 0)
    return RowSpace{shape[0]};
  if (shape.size() == 2 && shape[0] > 0 && shape[1] > 0 && shape[1] <= package::kLongestRow)
    return RowSpace{shape[0], 0, shape[1]};
  return std::nullopt;
}
/// Returns the rows of values of which an op has all elements.
std::optional<RowSpace> rowSpaceOf(const Shape &shape) {
  if (shape.size() == 2 && package::isRowSpace(shape[0], shape[1]))
    return RowSpace{shape[0], shape[1], shape[1]};
  return std::nullopt;
}

/// Returns whether the op converts places of elements in a row to the type in which they are sent, or back.
bool isPlaceConversion(Operation *op) {
  if (!isa<ConvertOp>(op))
    return false;
  Type from = tensorType(op->getOperand(0)).getElementType(), to = tensorType(op->getResult(0)).getElementType();
  return (from.isSignlessInteger(32) && to.isSignlessInteger(16)) ||
         (from.isSignlessInteger(16) && to.isSignlessInteger(32));
}
/// Returns whether the op looks up or spreads single elements of rows.
bool isRowLookup(Operation *op) {
  auto fits = [](Value table, Value places, Value slices, uint64_t batchDims, std::optional<Value> offset) {
    return batchDims == 1 && !offset && tensorType(table).getRank() == 2 && shapeOf(places) == shapeOf(slices) &&
           tensorType(places).getElementType().isSignlessInteger(32) && tensorType(table).getElementType().isF32() &&
           partSpaceOf(shapeOf(places)).has_value();
  };
  auto offsetOf = [](Value offset) { return offset ? std::optional(offset) : std::nullopt; };
  if (auto take = dyn_cast<TakeAlongOp>(op))
    return fits(take.getOperand(), take.getIndices(), take.getResult(), take.getBatchDims(),
                offsetOf(take.getOffset()));
  if (auto spread = dyn_cast<TakeAlongBackwardOp>(op))
    return fits(spread.getResult(), spread.getIndices(), spread.getGradient(), spread.getBatchDims(),
                offsetOf(spread.getOffset()));
  return false;
}
/// Returns whether the op chooses the largest elements of rows.
bool isRowChoice(Operation *op) {
  auto top = dyn_cast<TopKOp>(op);
  return top && tensorType(top.getScores()).getRank() == 2 && tensorType(top.getScores()).getElementType().isF32() &&
         tensorType(top.getIndices()).getElementType().isSignlessInteger(32);
}
/// Returns whether the op repeats one row for all rows.
bool repeatsRow(BroadcastInDimOp broadcast) {
  return tensorType(broadcast.getOperand()).getRank() == 1 && tensorType(broadcast.getResult()).getRank() == 2 &&
         broadcast.getBroadcastDimensions() == ArrayRef<int64_t>{1};
}

/// Returns the rows of an op that a row kernel can contain; nothing for other ops.
std::optional<RowSpace> rowSpace(Operation *op) {
  if (isPointwise(op) || isPlaceConversion(op))
    return op->hasTrait<ManyInstructions>() ? std::nullopt : partSpaceOf(shapeOf(op->getResult(0)));
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    auto from = tensorType(reduce.getOperand());
    bool ofRows = from.getRank() == 2 && reduce.getDimensions() == ArrayRef<int64_t>{1};
    bool known = llvm::is_contained({ReduceKindIR::sum, ReduceKindIR::max, ReduceKindIR::min}, reduce.getKind());
    bool isF32 = from.getElementType().isF32() && tensorType(reduce).getElementType().isF32();
    return ofRows && known && isF32 ? rowSpaceOf(shapeOf(reduce.getOperand())) : std::nullopt;
  }
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op)) {
    bool ofRow = tensorType(broadcast.getOperand()).getRank() == 1 && tensorType(op->getResult(0)).getRank() == 2 &&
                 broadcast.getBroadcastDimensions() == ArrayRef<int64_t>{0} &&
                 shapeOf(broadcast.getOperand())[0] == shapeOf(op->getResult(0))[0];
    return ofRow && hasKernelElements(op->getResult(0)) ? partSpaceOf(shapeOf(op->getResult(0))) : std::nullopt;
  }
  if (isRowChoice(op))
    return partSpaceOf(shapeOf(op->getOperand(0)));
  if (isRowLookup(op))
    return partSpaceOf(shapeOf(isa<TakeAlongOp>(op) ? op->getOperand(0) : op->getResult(0)));
  if (auto slice = dyn_cast<SliceOp>(op)) {
    Shape from = shapeOf(slice.getOperand());
    bool ofRows = from.size() == 2 && slice.getStart()[0] == 0 && slice.getLimit()[0] == from[0] &&
                  slice.getStrides()[0] == 1 && hasKernelElements(slice.getOperand());
    return ofRows ? partSpaceOf(from) : std::nullopt;
  }
  if (isa<ReshapeOp>(op)) { // of one element of each row
    Shape from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
    bool ofOne = from.size() == 2 && from[1] == 1 && to.size() == 1 && hasKernelElements(op->getOperand(0));
    return ofOne ? partSpaceOf(from) : std::nullopt;
  }
  if (!isa<PackOp, UnpackOp>(op))
    return std::nullopt;
  Value codes = isa<PackOp>(op) ? op->getOperand(0) : op->getResult(0),
        packed = isa<PackOp>(op) ? op->getResult(0) : op->getOperand(0);
  Shape bytes = shapeOf(packed);
  return bytes.size() == 2 && bytes[1] % package::kReductionLanes == 0 ? rowSpaceOf(shapeOf(codes)) : std::nullopt;
}

bool standsBetweenRows(Operation *op) { return !(rowSpace(op) || isView(op) || isa<BroadcastInDimOp, ConstantOp>(op)); }

struct RowGroup {
  llvm::SetVector<Operation *> ops;
  RowSpace space;
};

class RowFuser {
public:
  RowFuser(Block &block, KernelMaker &maker) : block(block), maker(maker), order(block, standsBetweenRows) {}

  void run() {
    for (Operation &op : block)
      if (auto space = rowSpace(&op))
        add(&op, *space);
    for (auto &group : groups)
      if (pays(*group))
        outline(*group);
    eraseUnusedConstants(block);
  }

private:
  /// Adds an op to the groups of its operands where their ops may be delayed to its position. A broadcast of a value
  /// that no group makes is left to the kernels that read it.
  void add(Operation *op, RowSpace space) {
    if (isa<BroadcastInDimOp, ReshapeOp>(op) && !groupOf.lookup(op->getOperand(0).getDefiningOp()))
      return;
    for (Value result : op->getResults())
      space.bytes += bytesOfTensor(result) / space.rows;
    auto own = std::make_unique<RowGroup>(RowGroup{{}, space});
    own->ops.insert(op);
    for (Value operand : op->getOperands()) {
      Operation *from = operand.getDefiningOp();
      RowGroup *group = from && !own->ops.contains(from) ? groupOf.lookup(from) : nullptr;
      if (!group || !mayJoin(*group, *own, op))
        continue;
      own->ops.insert_range(group->ops);
      own->space.columns = std::max(own->space.columns, group->space.columns);
      own->space.width = std::max(own->space.width, group->space.width);
      own->space.bytes += group->space.bytes;
      group->ops.clear();
    }
    settle(*own, order, groupOf);
    groups.push_back(std::move(own));
  }

  bool mayJoin(const RowGroup &group, const RowGroup &own, Operation *last) const {
    const RowSpace &a = group.space, &b = own.space;
    const int64_t columns = std::max(a.columns, b.columns);
    bool fits = a.rows == b.rows && (a.columns == 0 || b.columns == 0 || a.columns == b.columns) &&
                (columns == 0 || std::max(a.width, b.width) == columns) && a.bytes + b.bytes <= kMostBytesOfRow;
    return fits && group.ops.front()->getAttr(KerfDialect::kTaskAttr) == last->getAttr(KerfDialect::kTaskAttr) &&
           group.ops.size() + own.ops.size() <= kMostRowOps && order.mayDelay(group.ops, own.ops, last);
  }

  /// Returns whether the group is a codec's work that reads rows several times, or looks up some of their elements.
  static bool pays(const RowGroup &group) {
    bool packs = llvm::any_of(group.ops, llvm::IsaPred<PackOp, UnpackOp>);
    bool codes = llvm::any_of(group.ops, isCodecOp), places = llvm::any_of(group.ops, isPlaceConversion);
    bool looksUp = llvm::any_of(group.ops, isRowLookup);
    bool sharesPlaces = llvm::any_of(group.ops, [](Operation *op) {
      return isRowLookup(op) && llvm::any_of(op->getOperands(), [](Value operand) {
               auto broadcast = operand.getDefiningOp<BroadcastInDimOp>();
               return broadcast && repeatsRow(broadcast);
             });
    });
    bool reads = llvm::any_of(group.ops, [&](Operation *op) {
      return isa<ReduceOp>(op) &&
             llvm::any_of(op->getUsers(), [&](Operation *user) { return group.ops.contains(user); });
    });
    return packs || sharesPlaces || (codes && (reads || looksUp)) || (places && looksUp);
  }

  void outline(const RowGroup &group) {
    KernelOutline outline = outlineOf(group.ops.getArrayRef(), [&](BroadcastInDimOp broadcast) {
      return tensorType(broadcast.getOperand()).getRank() == 0 || repeatsRow(broadcast) ||
             rowSpace(broadcast).has_value();
    });
    llvm::SmallDenseSet<Value> repeated, others;
    for (Operation *op : group.ops)
      others.insert_range(op->getOperands());
    for (Operation *broadcast : outline.broadcasts)
      (repeatsRow(cast<BroadcastInDimOp>(broadcast)) ? repeated : others).insert(broadcast->getOperand(0));
    bool fits = package::isRowSpace(group.space.rows, group.space.width) &&
                llvm::all_of(outline.arguments, [&](Value argument) {
                  return repeated.contains(argument) ? !others.contains(argument) : mayBeRead(group, argument);
                });
    if (fits && !outline.results.empty())
      maker.replace(group.ops.getArrayRef(), outline);
  }
  /// Returns whether a kernel of the group can read the tensor: one element, one for each row, a row or packed bytes.
  static bool mayBeRead(const RowGroup &group, Value argument) {
    Shape shape = shapeOf(argument);
    return shape.empty() || (shape[0] == group.space.rows &&
                             (shape.size() == 1 || (shape.size() == 2 && shape[1] <= group.space.width)));
  }

  Block &block;
  KernelMaker &maker;
  BlockOrder order;
  std::vector<std::unique_ptr<RowGroup>> groups;
  DenseMap<Operation *, RowGroup *> groupOf;
};

struct FuseRows : impl::FuseRowsBase<FuseRows> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    KernelMaker maker(symbols, functions.empty() ? nullptr : functions.front());
    for (func::FuncOp function : functions)
      if (!function.isExternal() && !function->hasAttr(kKernelAttr))
        RowFuser(function.front(), maker).run();
  }
};

} // namespace
} // namespace kerf
