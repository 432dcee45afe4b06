// SPDX-License-Identifier: Apache-2.0
// Registration of the dialect, and the small functions about ops and types that many passes share.
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

#include "kerf/Dialect/Kerf/KerfDialect.cpp.inc"
#include "kerf/Dialect/Kerf/KerfEnums.cpp.inc"
#include "kerf/Dialect/Kerf/KerfInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "kerf/Dialect/Kerf/KerfTypes.cpp.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfOps.cpp.inc"

void KerfDialect::initialize() {
  registerKerfAttributes();
  addTypes<
#define GET_TYPEDEF_LIST
#include "kerf/Dialect/Kerf/KerfTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/KerfOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Dialect/Kerf/TakeAlongOps.cpp.inc"
      >();
}

Operation *KerfDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

SmallVector<Value> kerf::ir::cloneWithTypes(OpBuilder &builder, Operation *op, ValueRange operands,
                                            TypeRange resultTypes) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(resultTypes);
  state.addAttributes(op->getAttrs());
  for (Region &region : op->getRegions()) {
    IRMapping mapping;
    region.cloneInto(state.addRegion(), mapping);
  }
  Operation *clone = builder.create(state);
  return SmallVector<Value>(clone->getResults());
}

double kerf::ir::resultElements(Operation *op) {
  auto type = op->getNumResults() ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
  return type ? static_cast<double>(type.getNumElements()) : 0.0;
}

Rule kerf::ir::elementwise(Operation *op, const std::vector<std::vector<int>> &linearOperandSets) {
  return elementwiseRule(shapeOf(op->getResult(0)), static_cast<int>(op->getNumOperands()),
                         static_cast<int>(op->getNumResults()), linearOperandSets);
}

Shape kerf::ir::shapeOf(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    type = pending.getTensor();
  auto shape = cast<RankedTensorType>(type).getShape();
  return Shape(shape.begin(), shape.end());
}

Shape kerf::ir::shapeOf(Value value) { return shapeOf(value.getType()); }

double kerf::ir::elementsIn(const Shape &shape) {
  double elements = 1;
  for (int64_t size : shape)
    elements *= static_cast<double>(size);
  return elements;
}

bool kerf::ir::isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

bool kerf::ir::isHalf(Type elementType) { return elementType.isBF16() || elementType.isF16(); }

bool kerf::ir::isFloat8(Type elementType) { return isa<Float8E4M3FNType, Float8E5M2Type>(elementType); }

int64_t kerf::ir::bytesPerElement(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    type = pending.getTensor();
  return std::max<int64_t>(1, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8);
}

KernelClass kerf::ir::kernelClassOf(Operation *op) {
  auto work = dyn_cast_or_null<WorkOpInterface>(op);
  return work ? work.getKernelClass() : KernelClass::Nothing;
}

void kerf::ir::countPickedBytesOnly(Operation *op, ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  auto bytes = [](const Shape &shape, Value value) {
    return elementsIn(shape) * static_cast<double>(bytesPerElement(value.getType()));
  };
  double whole = bytes(operands[0], op->getOperand(0)), read = bytes(results[0], op->getResult(0));
  work.bytes -= std::max(0.0, whole - read);
}

std::optional<HalfRule> kerf::ir::halfRuleOf(Operation *op) {
  if (op->hasTrait<In16Bits<HalfRule::Widest>::Impl>())
    return HalfRule::Widest;
  if (op->hasTrait<In16Bits<HalfRule::Half>::Impl>())
    return HalfRule::Half;
  if (op->hasTrait<In16Bits<HalfRule::TypeOfFirst>::Impl>())
    return HalfRule::TypeOfFirst;
  if (op->hasTrait<In16Bits<HalfRule::Rows>::Impl>())
    return HalfRule::Rows;
  if (op->hasTrait<In16Bits<HalfRule::OperandsAsIs>::Impl>())
    return HalfRule::OperandsAsIs;
  return std::nullopt;
}

bool kerf::ir::isCheaperToRecompute(Operation *op) {
  return op->hasTrait<FusesIntoUsers>() && llvm::all_of(op->getOperands(), [&](Value operand) {
           return tensorType(operand).getNumElements() <= tensorType(op->getResult(0)).getNumElements();
         });
}

bool kerf::ir::mayAccumulateIn(Type from, Type to) {
  if (isFloat8(from))
    return isHalf(to) || to.isF32();
  return from == to || (isHalf(from) && to.isF32());
}

std::string kerf::ir::nodeName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    std::string inner = nodeName(name.getChildLoc());
    return inner.empty() ? name.getName().str() : inner;
  }
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string name = nodeName(part); !name.empty())
        return name;
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return nodeName(call.getCallee());
  return "";
}

std::vector<std::pair<Operation *, Rule>> kerf::ir::opsWithRules(ModuleOp module) {
  std::vector<std::pair<Operation *, Rule>> ops;
  for (auto function : module.getOps<FunctionOpInterface>())
    for (Block &block : function.getFunctionBody())
      for (auto op : block.getOps<ShardingRuleOpInterface>())
        ops.emplace_back(op.getOperation(), op.getShardingRule());
  return ops;
}

Mesh kerf::ir::meshOf(ModuleOp module) {
  for (MeshOp op : module.getOps<MeshOp>())
    return op.getMesh().toMesh();
  return {};
}
