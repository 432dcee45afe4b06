// SPDX-License-Identifier: Apache-2.0
// kerf-fuse-rows (device level): turns the ops of codecs over the blocks of a gradient into calls of row kernels
// (kerf/Package/RowKernel.h).
#include "KernelOutline.h"
#include "kerf/Package/Native.h"
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_FUSEROWS
#include "kerf/Transforms/Passes.h.inc"

namespace {
constexpr size_t kMostRowOps = 256; // limit for a kernel, which bounds the time of its compilation

/// Rows and columns of the matrix that an op works on; `columns` is 0 where the op works on one element of each row.
struct RowSpace {
  int64_t rows = 0, columns = 0;
};

std::optional<RowSpace> rowSpaceOf(const Shape &shape) {
  if (shape.size() == 1 && shape[0] > 0)
    return RowSpace{shape[0], 0};
  if (shape.size() == 2 && package::isRowSpace(shape[0], shape[1]))
    return RowSpace{shape[0], shape[1]};
  return std::nullopt;
}

/// Returns the matrix of an op that a row kernel can contain; nothing for other ops.
std::optional<RowSpace> rowSpace(Operation *op) {
  if (isPointwise(op))
    return op->hasTrait<ManyInstructions>() ? std::nullopt : rowSpaceOf(shapeOf(op->getResult(0)));
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
    return ofRow && hasKernelElements(op->getResult(0)) ? rowSpaceOf(shapeOf(op->getResult(0))) : std::nullopt;
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
    if (isa<BroadcastInDimOp>(op) && !groupOf.lookup(op->getOperand(0).getDefiningOp()))
      return;
    auto own = std::make_unique<RowGroup>(RowGroup{{}, space});
    own->ops.insert(op);
    for (Value operand : op->getOperands()) {
      Operation *from = operand.getDefiningOp();
      RowGroup *group = from && !own->ops.contains(from) ? groupOf.lookup(from) : nullptr;
      if (!group || !mayJoin(*group, *own, op))
        continue;
      own->ops.insert_range(group->ops);
      own->space.columns = std::max(own->space.columns, group->space.columns);
      group->ops.clear();
    }
    settle(*own, order, groupOf);
    groups.push_back(std::move(own));
  }

  bool mayJoin(const RowGroup &group, const RowGroup &own, Operation *last) const {
    bool fits = group.space.rows == own.space.rows &&
                (group.space.columns == 0 || own.space.columns == 0 || group.space.columns == own.space.columns);
    return fits && group.ops.front()->getAttr(KerfDialect::kTaskAttr) == last->getAttr(KerfDialect::kTaskAttr) &&
           group.ops.size() + own.ops.size() <= kMostRowOps && order.mayDelay(group.ops, own.ops, last);
  }

  /// Returns whether the group is a codec's work that reads rows several times.
  static bool pays(const RowGroup &group) {
    bool packs = llvm::any_of(group.ops, llvm::IsaPred<PackOp, UnpackOp>);
    bool codes = llvm::any_of(group.ops, isCodecOp);
    bool reads = llvm::any_of(group.ops, [&](Operation *op) {
      return isa<ReduceOp>(op) &&
             llvm::any_of(op->getUsers(), [&](Operation *user) { return group.ops.contains(user); });
    });
    return packs || (codes && reads);
  }

  void outline(const RowGroup &group) {
    KernelOutline outline = outlineOf(group.ops.getArrayRef(), [&](BroadcastInDimOp broadcast) {
      return tensorType(broadcast.getOperand()).getRank() == 0 || rowSpace(broadcast).has_value();
    });
    bool fits = llvm::all_of(outline.arguments, [&](Value argument) { return mayBeRead(group, argument); });
    if (fits && !outline.results.empty())
      maker.replace(group.ops.getArrayRef(), outline);
  }
  /// Returns whether a kernel of the group can read the tensor: one element, one for each row, a row or packed bytes.
  static bool mayBeRead(const RowGroup &group, Value argument) {
    Shape shape = shapeOf(argument);
    return shape.empty() || (shape[0] == group.space.rows && shape.size() <= 2);
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
