// SPDX-License-Identifier: Apache-2.0
#include "KernelOutline.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {
constexpr size_t kOpsInName = 3;

bool isElement(Type type) { return type.isF64() || type.isF32() || type.isBF16() || type.isF16() || type.isInteger(1); }

std::string nameOf(ArrayRef<Operation *> ops) {
  std::string name = "fused";
  for (Operation *op : ops.take_front(kOpsInName))
    name += "_" + op->getName().stripDialect().str();
  if (ops.size() > kOpsInName)
    name += "_and_" + std::to_string(ops.size() - kOpsInName) + "_more";
  return name;
}
} // namespace

bool hasKernelElements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isElement(type.getElementType());
}

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
  return op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 && hasKernelElements(op->getResult(0)) &&
         llvm::all_of(op->getOperands(), hasKernelElements) &&
         llvm::all_of(op->getOperands(), [&](Value v) { return shapeOf(v) == shapeOf(op->getResult(0)); });
}

bool isView(Operation *op) {
  return isa<WaitOp>(op) || (isa<WorkOpInterface>(op) && kernelClassOf(op) == KernelClass::Nothing);
}

bool isSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && hasKernelElements(value) && cast<DenseElementsAttr>(constant->getAttr("value")).isSplat();
}

int64_t bytesOfTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
}

BlockOrder::BlockOrder(Block &block, function_ref<bool(Operation *)> isHeavy) {
  int64_t position = 0;
  heavyBefore.push_back(0);
  for (Operation &op : block) {
    positions[&op] = position++;
    heavyBefore.push_back(heavyBefore.back() + isHeavy(&op));
  }
}

void BlockOrder::sort(SmallVectorImpl<Operation *> &ops) const {
  llvm::sort(ops, [&](Operation *a, Operation *b) { return positions.at(a) < positions.at(b); });
}

int64_t BlockOrder::lastUse(Value value) const {
  int64_t last = -1;
  for (Operation *user : value.getUsers())
    last = std::max(last, positions.at(user));
  return last;
}

bool BlockOrder::mayDelay(const llvm::SetVector<Operation *> &group, const llvm::SetVector<Operation *> &own,
                          Operation *last) const {
  auto inside = [&](Operation *op) { return group.contains(op) || own.contains(op); };
  int64_t keptLonger = 0, notStored = 0;
  llvm::SmallDenseSet<Value> read;
  for (Operation *op : group) {
    bool stored = false, crosses = false;
    for (Operation *user : op->getUsers()) {
      crosses |= own.contains(user);
      if (inside(user))
        continue;
      if (positions.at(user) < positions.at(last))
        return false;
      stored = true;
    }
    for (Value result : op->getResults())
      notStored += crosses && !stored ? bytesOfTensor(result) : 0;
    for (Value operand : op->getOperands())
      if (!inside(operand.getDefiningOp()) && !operand.getDefiningOp<BroadcastInDimOp>() &&
          read.insert(operand).second && lastUse(operand) < positions.at(last))
        keptLonger += bytesOfTensor(operand);
  }
  bool waits = heavyBefore[size_t(positions.at(group.back()))] != heavyBefore[size_t(positions.at(last))];
  return !waits || keptLonger <= notStored;
}

void eraseUnusedConstants(Block &block) {
  for (ConstantOp constant : llvm::make_early_inc_range(block.getOps<ConstantOp>()))
    if (constant->use_empty())
      constant->erase();
}

KernelOutline outlineOf(ArrayRef<Operation *> ops, function_ref<bool(BroadcastInDimOp)> takes) {
  KernelOutline outline;
  llvm::SmallDenseSet<Operation *> inside(ops.begin(), ops.end());
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if ((maker && inside.contains(maker)) || isSplat(operand) || outline.broadcasts.contains(maker))
        continue;
      auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(maker);
      if (broadcast && broadcast->getAttr(KerfDialect::kTaskAttr) == op->getAttr(KerfDialect::kTaskAttr) &&
          takes(broadcast)) {
        outline.broadcasts.insert(broadcast);
        if (!isSplat(broadcast.getOperand()))
          outline.arguments.insert(broadcast.getOperand());
        continue;
      }
      outline.arguments.insert(operand);
    }
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        outline.results.push_back(result);
  }
  return outline;
}

void KernelMaker::replace(ArrayRef<Operation *> ops, const KernelOutline &outline) {
  func::FuncOp kernel = kernelFor(ops, outline);
  Operation *last = ops.back();
  OpBuilder builder(last);
  auto call = CallOp::create(builder, last->getLoc(), kernel.getResultTypes(), kernel.getSymName(),
                             outline.arguments.getArrayRef());
  call->setDiscardableAttrs(last->getDiscardableAttrDictionary());
  llvm::SmallDenseSet<Operation *> inside(ops.begin(), ops.end());
  for (auto [result, made] : llvm::zip(outline.results, call.getResults())) {
    Value old = result;
    old.replaceUsesWithIf(made, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  for (Operation *broadcast : outline.broadcasts)
    if (broadcast->use_empty())
      broadcast->erase();
}

func::FuncOp KernelMaker::kernelFor(ArrayRef<Operation *> ops, const KernelOutline &outline) {
  OpBuilder builder(firstFunction->getContext());
  SmallVector<Type> types, results;
  for (Value argument : outline.arguments)
    types.push_back(argument.getType());
  for (Value result : outline.results)
    results.push_back(result.getType());
  auto kernel = func::FuncOp::create(builder.getUnknownLoc(), nameOf(ops), builder.getFunctionType(types, results));
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
  for (Operation *op : ops) {
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

} // namespace kerf
