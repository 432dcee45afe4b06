// SPDX-License-Identifier: Apache-2.0
// kerf-fuse-pointwise (device level): turns chains of pointwise ops, and reductions at their ends, into calls
// of kernel functions.
#include "KernelOutline.h"
#include "RaiseChains.h"
#include "kerf/Package/Native.h"
#include "kerf/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_FUSEPOINTWISE
#include "kerf/Transforms/Passes.h.inc"

namespace {
constexpr size_t kMostOps = 64; // limit for a kernel, which bounds the number of its registers
/// A reduction to fewer elements than this may run in one thread. Costly ops and stored results are then left to
/// kernels that all threads share.
constexpr int64_t kFewResults = 64;

/// Returns the reduction in the form that package::kernelSpace reads.
package::BroadcastView keptBy(ReduceOp reduce) {
  package::BroadcastView kept;
  Shape shape = shapeOf(reduce.getOperand());
  for (int64_t d = 0; d < int64_t(shape.size()); ++d)
    if (!llvm::is_contained(reduce.getDimensions(), d)) {
      kept.shape.push_back(shape[size_t(d)]);
      kept.dimensions.push_back(d);
    }
  return kept;
}
/// Returns whether a kernel can contain this reduction.
bool isReduction(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && hasKernelElements(reduce.getOperand()) &&
         isa<FloatType>(cast<RankedTensorType>(reduce.getOperand().getType()).getElementType()) &&
         package::kernelSpace(shapeOf(reduce.getOperand()), {}, keptBy(reduce));
}
Shape spaceOf(Operation *op) { return shapeOf(isa<ReduceOp>(op) ? op->getOperand(0) : op->getResult(0)); }

/// The runtime's kernels for single ops convert 16-bit floats to complete copies in f32, which a fused kernel avoids.
bool hasHalf(Operation *op) {
  auto half = [](Value value) { return isHalf(cast<RankedTensorType>(value.getType()).getElementType()); };
  return half(op->getResult(0)) || llvm::any_of(op->getOperands(), half);
}
/// Returns whether the op adds a bias, one number for each column, to a product that nothing else reads.
bool isBiasOfProduct(Operation *op) {
  auto add = dyn_cast<AddOp>(op);
  if (!add)
    return false;
  for (auto [x, y] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
    auto bias = y.getDefiningOp<BroadcastInDimOp>();
    if (bias && x.getDefiningOp<DotGeneralOp>() && x.hasOneUse() &&
        bias.getBroadcastDimensions() == ArrayRef<int64_t>{tensorType(x).getRank() - 1})
      return true;
  }
  return false;
}
/// Returns whether the op is neither part of kernels nor free, so that values are kept in memory while it runs.
bool isHeavy(Operation *op) { return !(isPointwise(op) || isReduction(op) || isView(op) || isa<BroadcastInDimOp>(op)); }
/// Pointwise ops, and reductions of their results, that become one call at the position of the last of them.
struct Group {
  llvm::SetVector<Operation *> ops;
};
using Ops = llvm::ArrayRef<Operation *>;

/// Returns the first op that is a reduction, or null.
ReduceOp reductionIn(Ops ops) {
  auto found = llvm::find_if(ops, llvm::IsaPred<ReduceOp>);
  return found == ops.end() ? ReduceOp() : cast<ReduceOp>(*found);
}

class Fuser {
public:
  Fuser(Block &block, KernelMaker &maker, bool leavesBiases) : block(block), maker(maker), leavesBiases(leavesBiases) {}

  void run() {
    ChainRaiser(block, isPointwise, isHeavy).run();
    order = BlockOrder(block, isHeavy);
    for (Operation &op : block)
      if (isPointwise(&op) || isReduction(&op))
        add(&op);
    SmallVector<Group *> made;
    for (auto &group : groups)
      if (!group->ops.empty())
        made.push_back(group.get());
    for (Group *group : made)
      outline(*group);
    eraseUnusedConstants(block);
  }

private:
  /// Adds an op to the groups of its operands where their ops may be delayed to its position. No op joins a group
  /// because of a reduced operand, since a reduction is complete only after all its elements have been read.
  void add(Operation *op) {
    auto own = std::make_unique<Group>();
    own->ops.insert(op);
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      Group *group = maker && !own->ops.contains(maker) && !isa<ReduceOp>(maker) ? groupOf.lookup(maker) : nullptr;
      if (group && mayJoin(*group, *own, op)) {
        own->ops.insert_range(group->ops);
        group->ops.clear();
      }
    }
    settle(*own, order, groupOf);
    groups.push_back(std::move(own));
  }

  bool mayJoin(const Group &group, const Group &own, Operation *last) const {
    if (group.ops.front()->getAttr(KerfDialect::kTaskAttr) != last->getAttr(KerfDialect::kTaskAttr) ||
        group.ops.size() + own.ops.size() > kMostOps || (leavesBiases && staysWithProduct(group, last)))
      return false;
    return order.mayDelay(group.ops, own.ops, last) && mayReduce(group, own);
  }

  /// Returns whether the group is the bias of a product, which a library adds with the product, so that `last` reads
  /// the sum. The library also adds another tensor or applies GELU (kerf/Package/Epilogue.h, Addition.h); these join.
  static bool staysWithProduct(const Group &group, Operation *last) {
    bool joinsToo = isa<AddOp>(last) || (isa<GeluOp>(last) && cast<GeluOp>(last).getApproximate());
    return group.ops.size() == 1 && isBiasOfProduct(group.ops.front()) && !joinsToo;
  }

  /// Returns whether the reductions of both groups can run in one pass over memory, and whether that pays: beside calls
  /// of math routines, blocks and running results no longer fit into the first-level cache if results are stored too.
  bool mayReduce(const Group &group, const Group &own) const {
    SmallVector<Operation *> ops(group.ops.begin(), group.ops.end());
    ops.append(own.ops.begin(), own.ops.end());
    ReduceOp reduction = reductionIn(ops);
    if (!reduction)
      return true;
    auto isRead = [&](Operation *op, bool inside) {
      return llvm::any_of(op->getUsers(), [&](Operation *user) { return llvm::is_contained(ops, user) == inside; });
    };
    bool stores = false, calls = false;
    for (Operation *op : ops) {
      if (auto reduce = dyn_cast<ReduceOp>(op)) {
        if (reduce.getDimensions() != reduction.getDimensions() || isRead(op, true))
          return false;
        continue;
      }
      stores |= isRead(op, false);
      calls |= op->hasTrait<ManyInstructions>();
    }
    bool few = cast<RankedTensorType>(reduction.getType()).getNumElements() < kFewResults;
    if ((calls && stores) || (few && (calls || stores)))
      return false;
    return plan(ops, reduction).broadcasts.size() == plan(ops, {}).broadcasts.size();
  }

  static KernelOutline plan(Ops ops, ReduceOp reduction) {
    Shape shape = spaceOf(ops.front());
    std::optional<package::BroadcastView> kept = reduction ? std::optional(keptBy(reduction)) : std::nullopt;
    std::vector<package::BroadcastView> taken;
    return outlineOf(ops, [&](BroadcastInDimOp broadcast) {
      taken.push_back({shapeOf(broadcast.getOperand()), Shape(broadcast.getBroadcastDimensions())});
      if (package::kernelSpace(shape, taken, kept))
        return true;
      taken.pop_back();
      return false;
    });
  }

  void outline(const Group &group) {
    KernelOutline outline = plan(group.ops.getArrayRef(), reductionIn(group.ops.getArrayRef()));
    bool alone = group.ops.size() == 1 && outline.broadcasts.empty() && !hasHalf(group.ops.front());
    if (!alone && !outline.results.empty())
      maker.replace(group.ops.getArrayRef(), outline);
  }

  Block &block;
  KernelMaker &maker;
  bool leavesBiases;
  BlockOrder order;
  std::vector<std::unique_ptr<Group>> groups;
  DenseMap<Operation *, Group *> groupOf;
};

struct FusePointwise : impl::FusePointwiseBase<FusePointwise> {
  using FusePointwiseBase::FusePointwiseBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    KernelMaker maker(symbols, functions.empty() ? nullptr : functions.front());
    for (func::FuncOp function : functions)
      if (!function.isExternal() && !function->hasAttr(kKernelAttr))
        Fuser(function.front(), maker, leaveBiases).run();
  }
};

} // namespace
} // namespace kerf
