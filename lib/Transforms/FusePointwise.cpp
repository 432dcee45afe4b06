// SPDX-License-Identifier: Apache-2.0
// kerf-fuse-pointwise (device level): turns chains of pointwise ops, and reductions at their ends, into calls
// of kernel functions.
#include "RaiseChains.h"
#include "kerf/Package/Native.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_FUSEPOINTWISE
#include "kerf/Transforms/Passes.h.inc"

namespace {
constexpr size_t kMostOps = 64; // limit for a kernel, which bounds the number of its registers
constexpr size_t kOpsInName = 3;
/// A reduction to fewer elements than this may run in one thread. Costly ops and stored results are then left to
/// kernels that all threads share.
constexpr int64_t kFewResults = 64;

bool isElement(Type type) { return type.isF64() || type.isF32() || type.isBF16() || type.isF16() || type.isInteger(1); }
bool hasElements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isElement(type.getElementType());
}

/// Returns whether a kernel can contain the op although one of its types is an integer: a conversion to or from codes
/// of one byte, or random numbers from keys.
bool isCodecOp(Operation *op) {
  auto elementOf = [](Value value) { return tensorType(value).getElementType(); };
  if (isa<RandomOp>(op))
    return true;
  if (!isa<ConvertOp>(op))
    return false;
  Type from = elementOf(op->getOperand(0)), to = elementOf(op->getResult(0));
  return (from.isF32() || from.isInteger(1)) ? to.isSignlessInteger(8) : from.isSignlessInteger(8) && to.isF32();
}

bool isPointwise(Operation *op) {
  if (isCodecOp(op))
    return true;
  return op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 && hasElements(op->getResult(0)) &&
         llvm::all_of(op->getOperands(), hasElements) &&
         llvm::all_of(op->getOperands(), [&](Value v) { return shapeOf(v) == shapeOf(op->getResult(0)); });
}
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
  return reduce && hasElements(reduce.getOperand()) &&
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
bool isView(Operation *op) {
  return isa<WaitOp>(op) || (isa<WorkOpInterface>(op) && kernelClassOf(op) == KernelClass::Nothing);
}
/// Returns whether the op is neither part of kernels nor free, so that values are kept in memory while it runs.
bool isHeavy(Operation *op) { return !(isPointwise(op) || isReduction(op) || isView(op) || isa<BroadcastInDimOp>(op)); }
bool isSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && hasElements(value) && cast<DenseElementsAttr>(constant->getAttr("value")).isSplat();
}
int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
}

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
  Fuser(Block &block, SymbolTable &symbols, Operation *firstFunction, llvm::StringMap<func::FuncOp> &byText,
        bool leavesBiases)
      : block(block), symbols(symbols), firstFunction(firstFunction), byText(byText), leavesBiases(leavesBiases) {}

  void run() {
    ChainRaiser(block, isPointwise, isHeavy).run();
    int64_t position = 0;
    heavyBefore.push_back(0);
    for (Operation &op : block) {
      positions[&op] = position++;
      heavyBefore.push_back(heavyBefore.back() + isHeavy(&op));
    }
    for (Operation &op : block)
      if (isPointwise(&op) || isReduction(&op))
        add(&op);
    SmallVector<Group *> made;
    for (auto &group : groups)
      if (!group->ops.empty())
        made.push_back(group.get());
    for (Group *group : made)
      outline(*group);
    for (ConstantOp constant : llvm::make_early_inc_range(block.getOps<ConstantOp>()))
      if (constant->use_empty())
        constant->erase();
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
    SmallVector<Operation *> sorted = own->ops.takeVector();
    llvm::sort(sorted, [&](Operation *a, Operation *b) { return positions.at(a) < positions.at(b); });
    for (Operation *member : sorted) {
      own->ops.insert(member);
      groupOf[member] = own.get();
    }
    groups.push_back(std::move(own));
  }

  bool mayJoin(const Group &group, const Group &own, Operation *last) const {
    if (group.ops.front()->getAttr(KerfDialect::kTaskAttr) != last->getAttr(KerfDialect::kTaskAttr) ||
        group.ops.size() + own.ops.size() > kMostOps || (leavesBiases && staysWithProduct(group, last)))
      return false;
    auto inside = [&](Operation *op) { return group.ops.contains(op) || own.ops.contains(op); };
    int64_t keptLonger = 0, notStored = 0;
    llvm::SmallDenseSet<Value> read;
    for (Operation *op : group.ops) {
      bool stored = false, crosses = false;
      for (Operation *user : op->getUsers()) {
        crosses |= own.ops.contains(user);
        if (inside(user))
          continue;
        if (positions.at(user) < positions.at(last))
          return false;
        stored = true;
      }
      notStored += crosses && !stored ? bytesOf(op->getResult(0)) : 0;
      for (Value operand : op->getOperands())
        if (!inside(operand.getDefiningOp()) && !operand.getDefiningOp<BroadcastInDimOp>() &&
            read.insert(operand).second && lastUse(operand) < positions.at(last))
          keptLonger += bytesOf(operand);
    }
    // Where heavy ops stand in between, delaying a group must not keep more memory alive than its fusion saves.
    bool waits = heavyBefore[size_t(positions.at(group.ops.back()))] != heavyBefore[size_t(positions.at(last))];
    return (!waits || keptLonger <= notStored) && mayReduce(group, own);
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

  int64_t lastUse(Value value) const {
    int64_t last = -1;
    for (Operation *user : value.getUsers())
      last = std::max(last, positions.at(user));
    return last;
  }

  struct Outline {
    llvm::SetVector<Value> arguments;
    llvm::SetVector<Operation *> broadcasts; // broadcasts that the kernel computes itself
    SmallVector<Value> results;
  };

  static Outline plan(Ops ops, ReduceOp reduction) {
    Outline outline;
    Shape shape = spaceOf(ops.front());
    std::optional<package::BroadcastView> kept = reduction ? std::optional(keptBy(reduction)) : std::nullopt;
    std::vector<package::BroadcastView> taken;
    llvm::SmallDenseSet<Operation *> inside(ops.begin(), ops.end());
    for (Operation *op : ops) {
      for (Value operand : op->getOperands()) {
        Operation *maker = operand.getDefiningOp();
        if ((maker && inside.contains(maker)) || isSplat(operand) || outline.broadcasts.contains(maker))
          continue;
        auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(maker);
        if (broadcast && broadcast->getAttr(KerfDialect::kTaskAttr) == op->getAttr(KerfDialect::kTaskAttr)) {
          taken.push_back({shapeOf(broadcast.getOperand()), Shape(broadcast.getBroadcastDimensions())});
          if (package::kernelSpace(shape, taken, kept)) {
            outline.broadcasts.insert(broadcast);
            if (!isSplat(broadcast.getOperand()))
              outline.arguments.insert(broadcast.getOperand());
            continue;
          }
          taken.pop_back();
        }
        outline.arguments.insert(operand);
      }
      if (llvm::any_of(op->getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        outline.results.push_back(op->getResult(0));
    }
    return outline;
  }

  void outline(const Group &group) {
    Outline outline = plan(group.ops.getArrayRef(), reductionIn(group.ops.getArrayRef()));
    bool alone = group.ops.size() == 1 && outline.broadcasts.empty() && !hasHalf(group.ops.front());
    if (alone || outline.results.empty())
      return;
    func::FuncOp kernel = kernelFor(group, outline);
    Operation *last = group.ops.back();
    OpBuilder builder(last);
    auto call = CallOp::create(builder, last->getLoc(), kernel.getResultTypes(), kernel.getSymName(),
                               outline.arguments.getArrayRef());
    call->setDiscardableAttrs(last->getDiscardableAttrDictionary());
    for (auto [old, made] : llvm::zip(outline.results, call.getResults()))
      old.replaceUsesWithIf(made, [&](OpOperand &use) { return !group.ops.contains(use.getOwner()); });
    for (Operation *op : llvm::reverse(group.ops))
      op->erase();
    for (Operation *broadcast : outline.broadcasts)
      if (broadcast->use_empty())
        broadcast->erase();
  }

  /// Returns the kernel function for the ops of a group. Groups with equal ops share a function.
  func::FuncOp kernelFor(const Group &group, const Outline &outline) {
    OpBuilder builder(block.getParentOp()->getContext());
    SmallVector<Type> types, results;
    for (Value argument : outline.arguments)
      types.push_back(argument.getType());
    for (Value result : outline.results)
      results.push_back(result.getType());
    auto kernel = func::FuncOp::create(builder.getUnknownLoc(), nameOf(group), builder.getFunctionType(types, results));
    kernel.setPrivate();
    kernel->setAttr(kKernelAttr, builder.getUnitAttr());
    Block *body = kernel.addEntryBlock();
    builder.setInsertionPointToStart(body);
    IRMapping mapping;
    mapping.map(outline.arguments.getArrayRef(), body->getArguments());
    auto copy = [&](Operation *op) {
      Operation *made = builder.clone(*op, mapping);
      made->setDiscardableAttrs(DictionaryAttr::get(builder.getContext()));
      made->setLoc(builder.getUnknownLoc());
    };
    for (Operation *op : group.ops) {
      for (Value operand : op->getOperands()) {
        if (mapping.contains(operand))
          continue;
        Operation *maker = operand.getDefiningOp(); // a constant with equal elements, or a broadcast
        for (Value inner : maker->getOperands())
          if (!mapping.contains(inner))
            copy(inner.getDefiningOp());
        copy(maker);
      }
      copy(op);
    }
    SmallVector<Value> returned;
    for (Value result : outline.results)
      returned.push_back(mapping.lookup(result));
    func::ReturnOp::create(builder, builder.getUnknownLoc(), returned);
    std::string text;
    llvm::raw_string_ostream stream(text);
    kernel.getBody().front().print(stream);
    auto [found, isNew] = byText.try_emplace(text, kernel);
    if (isNew) // the function is placed before those that call it
      symbols.insert(kernel, Block::iterator(firstFunction));
    else
      kernel.erase();
    return found->second;
  }

  static std::string nameOf(const Group &group) {
    std::string name = "fused";
    for (Operation *op : group.ops.getArrayRef().take_front(kOpsInName))
      name += "_" + op->getName().stripDialect().str();
    if (group.ops.size() > kOpsInName)
      name += "_and_" + std::to_string(group.ops.size() - kOpsInName) + "_more";
    return name;
  }

  Block &block;
  SymbolTable &symbols;
  Operation *firstFunction;
  llvm::StringMap<func::FuncOp> &byText;
  bool leavesBiases;
  DenseMap<Operation *, int64_t> positions;
  std::vector<int64_t> heavyBefore; // the number of heavy ops before each position
  std::vector<std::unique_ptr<Group>> groups;
  DenseMap<Operation *, Group *> groupOf;
};

struct FusePointwise : impl::FusePointwiseBase<FusePointwise> {
  using FusePointwiseBase::FusePointwiseBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::StringMap<func::FuncOp> byText;
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (!function.isExternal() && !function->hasAttr(kKernelAttr))
        Fuser(function.front(), symbols, functions.front(), byText, leaveBiases).run();
  }
};

} // namespace
} // namespace kerf
