// SPDX-License-Identifier: Apache-2.0
// kerf-mixed-precision: 16-bit computation on f32 parameters. Passes.td describes which op computes in which type.
#include "kerf/Transforms/MixedPrecision.h"
#include "Calls.h"
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace kerf {
#define GEN_PASS_DEF_MIXEDPRECISION
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

namespace {

/// The precision of a floating-point value. Half: its elements are 16-bit. Single: it is f32, and so are elementwise
/// ops that read it. Adapting: it is f32 but takes the type of the other operands of an op (parameters, constants, and
/// values computed from these alone).
enum class Width { Half, Single, Adapting };

RankedTensorType withElements(Value value, Type elementType) {
  return RankedTensorType::get(tensorType(value).getShape(), elementType);
}

bool isMove(Operation *op) { return op && op->getNumOperands() == 1 && op->hasTrait<PicksElements>(); }

/// Returns whether the value is a constant tensor that training does not change.
bool isTable(Value value) {
  while (isMove(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return value.getDefiningOp<ConstantOp>() != nullptr;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto kind = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
  return kind && (kind.getValue() == "constant" || kind.getValue() == "buffer");
}

class Narrowing {
public:
  Narrowing(ModuleOp module, FloatType half)
      : symbols(module), half(half), single(Float32Type::get(half.getContext())) {}

  void run(func::FuncOp main);

private:
  void visitFunction(func::FuncOp function);
  void visit(Operation *op);
  void visitCall(CallOp call);
  void lookUp(Operation *op);
  void normalize(Operation *op);
  void endNormalization(Operation *op);
  void computeInHalf(Operation *op, unsigned operands);
  void computeInSingle(Operation *op);
  void promote(Operation *op);

  Value asHalf(Value value, Operation *user);
  Value asSingle(Value value, Operation *user);
  ConstantOp halfConstant(ConstantOp constant, OpBuilder &builder);
  void setHalf(Value value) {
    value.setType(withElements(value, half));
    widths[value] = Width::Half;
  }
  void setWidths(Operation *op, Width width) {
    for (Value result : op->getResults())
      if (isFloat(result))
        widths[result] = width;
  }
  bool allAdapt(Operation *op) const {
    return llvm::all_of(op->getOperands(), [&](Value v) { return !isFloat(v) || widths.at(v) == Width::Adapting; });
  }

  SymbolTable symbols;
  FloatType half;
  Type single;
  DenseMap<Value, Width> widths;
  DenseMap<Value, Value> halves, singles; // values converted to 16 bits or to f32, each at most once
  DenseSet<Operation *> visited;          // functions that have been converted
};

/// Returns the constant rounded to 16 bits. Finite elements stay finite, because a mask with the lowest f32 must not
/// become infinite (0 * -inf is NaN).
ConstantOp Narrowing::halfConstant(ConstantOp constant, OpBuilder &builder) {
  auto elements = cast<DenseElementsAttr>(constant.getValue());
  auto narrow = [&](const APFloat &value) {
    APFloat number = value;
    bool losesInfo;
    number.convert(half.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    return number.isInfinity() && value.isFinite() ? APFloat::getLargest(half.getFloatSemantics(), value.isNegative())
                                                   : number;
  };
  auto type = withElements(constant, half);
  SmallVector<APFloat> numbers;
  if (elements.isSplat())
    numbers.push_back(narrow(elements.getSplatValue<APFloat>()));
  else
    llvm::append_range(numbers, llvm::map_range(elements.getValues<APFloat>(), narrow));
  return ConstantOp::create(builder, constant.getLoc(), type, DenseElementsAttr::get(type, numbers));
}

/// Returns the value in 16 bits, converted right before `user` if it has not been before. A parameter is converted
/// before it is broadcast or reshaped.
Value Narrowing::asHalf(Value value, Operation *user) {
  if (widths.at(value) == Width::Half)
    return value;
  if (Value made = halves.lookup(value))
    return made;
  Operation *source = value.getDefiningOp();
  OpBuilder builder(user);
  Value made;
  if (auto constant = dyn_cast_or_null<ConstantOp>(source)) {
    made = halfConstant(constant, builder);
  } else if (widths.at(value) == Width::Adapting && isMove(source)) {
    Value operand = asHalf(source->getOperand(0), user);
    made = cloneWithTypes(builder, source, operand, Type(withElements(value, half)))[0];
  } else {
    made = ConvertOp::create(builder, user->getLoc(), withElements(value, half), value);
  }
  widths[made] = Width::Half;
  return halves[value] = made;
}

Value Narrowing::asSingle(Value value, Operation *user) {
  if (widths.at(value) != Width::Half)
    return value;
  if (Value made = singles.lookup(value))
    return made;
  OpBuilder builder(user);
  Value made = ConvertOp::create(builder, user->getLoc(), withElements(value, single), value);
  widths[made] = Width::Single;
  return singles[value] = made;
}

/// Converts products and similar ops: their first `operands` operands and first result become 16-bit.
void Narrowing::computeInHalf(Operation *op, unsigned operands) {
  if (allAdapt(op))
    return setWidths(op, Width::Adapting);
  for (OpOperand &operand : op->getOpOperands().take_front(operands))
    if (isFloat(operand.get()))
      operand.set(asHalf(operand.get(), op));
  setWidths(op, Width::Single);
  setHalf(op->getResult(0));
}

void Narrowing::computeInSingle(Operation *op) {
  if (allAdapt(op))
    return setWidths(op, Width::Adapting);
  for (OpOperand &operand : op->getOpOperands())
    if (isFloat(operand.get()))
      operand.set(asSingle(operand.get(), op));
  setWidths(op, Width::Single);
}

/// Converts all operands of an op to one type: f32 where one of them has precision Single, otherwise 16 bits.
void Narrowing::promote(Operation *op) {
  bool anySingle =
      llvm::any_of(op->getOperands(), [&](Value v) { return isFloat(v) && widths.at(v) == Width::Single; });
  if (anySingle || allAdapt(op))
    return computeInSingle(op);
  for (OpOperand &operand : op->getOpOperands())
    if (isFloat(operand.get()))
      operand.set(asHalf(operand.get(), op));
  for (Value result : op->getResults())
    if (isFloat(result))
      setHalf(result);
}

/// Converts rows of an f32 table after they have been looked up, so that only these rows are converted and the table's
/// gradient is an f32 sum.
void Narrowing::lookUp(Operation *op) {
  if (widths.at(op->getOperand(0)) != Width::Adapting)
    return promote(op);
  setWidths(op, Width::Adapting);
  Value rows = op->getResult(0);
  Value narrow = asHalf(rows, op->getNextNode());
  rows.replaceAllUsesExcept(narrow, narrow.getDefiningOp());
}

/// Converts a norm: its result gets the operand's type, scale and bias keep theirs, and statistics are f32.
void Narrowing::normalize(Operation *op) {
  Width width = widths.at(op->getOperand(0));
  setWidths(op, Width::Single);
  widths[op->getResult(0)] = width;
  if (width == Width::Half)
    setHalf(op->getResult(0));
}

/// The first call determines the types of the callee's arguments. A value that all layers share is converted once for
/// all of them.
void Narrowing::visitCall(CallOp call) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  if (visited.insert(callee).second) {
    for (auto [operand, argument] : llvm::zip(call.getInputs(), callee.getArguments()))
      if (isFloat(operand)) {
        bool shared = widths.at(operand) == Width::Adapting && isTable(operand);
        Value given = shared ? asHalf(operand, call) : operand;
        widths[argument] = widths.at(given);
        argument.setType(given.getType());
      }
    visitFunction(callee);
  }
  for (auto [operand, argument] : llvm::zip(call->getOpOperands(), callee.getArguments()))
    if (isFloat(argument))
      operand.set(widths.at(argument) == Width::Half ? asHalf(operand.get(), call) : asSingle(operand.get(), call));
  for (auto [result, returned] : llvm::zip(call.getOutputs(), callee.front().getTerminator()->getOperands()))
    if (isFloat(returned)) {
      widths[result] = widths.at(returned);
      result.setType(returned.getType());
    }
}

/// Rounds the result of a normalization of elementary ops to 16 bits, as the result of a composite norm is.
void Narrowing::endNormalization(Operation *op) {
  op->removeAttr(KerfDialect::kNormalizedAttr);
  Value result = op->getResult(0);
  if (widths.at(result) != Width::Single)
    return;
  Value narrow = asHalf(result, op->getNextNode());
  result.replaceAllUsesExcept(narrow, narrow.getDefiningOp());
}

void Narrowing::visit(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op))
    return visitCall(call);
  if (isa<ConstantOp>(op))
    return setWidths(op, Width::Adapting);
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    if (reduce.getKind() == ReduceKindIR::sum && isFloat(op->getResult(0)))
      return setWidths(op, allAdapt(op) ? Width::Adapting : Width::Single);
    return promote(op);
  }
  if (auto pool = dyn_cast<ReduceWindowOp>(op); pool && pool.getKind() != ReduceKindIR::sum)
    return promote(op); // each result is one of the elements
  std::optional<HalfRule> rule = halfRuleOf(op);
  if (!rule)
    return computeInSingle(op);
  switch (*rule) {
  case HalfRule::Widest:
    return promote(op);
  case HalfRule::Half: // attention's mask keeps its type
    return computeInHalf(op, isa<AttentionOp>(op) ? 3 : op->getNumOperands());
  case HalfRule::TypeOfFirst:
    return normalize(op);
  case HalfRule::Rows:
    return isFloat(op->getOperand(0)) ? lookUp(op) : void();
  case HalfRule::OperandsAsIs:
    return setWidths(op, Width::Single);
  }
}

void Narrowing::visitFunction(func::FuncOp function) {
  Block &block = function.front();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    visit(&op);
    if (op.hasAttr(KerfDialect::kNormalizedAttr))
      endNormalization(&op);
  }
  function.setFunctionType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
}

/// Returns whether each step gives the argument a new value, such as running statistics, which stay f32.
bool isUpdated(func::FuncOp main, BlockArgument argument) {
  return static_cast<bool>(main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr));
}

void Narrowing::run(func::FuncOp main) {
  for (BlockArgument argument : main.getArguments()) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    if (isFloat(argument))
      widths[argument] =
          (kind && kind.getValue() == "input") || isUpdated(main, argument) ? Width::Single : Width::Adapting;
  }
  visitFunction(main);
  Operation *terminator = main.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    if (isFloat(operand.get()))
      operand.set(asSingle(operand.get(), terminator));
  main.setFunctionType(
      FunctionType::get(main.getContext(), main.front().getArgumentTypes(), terminator->getOperandTypes()));
  eraseDeadOps(main.front()); // removes conversions to f32 that only 16-bit ops use
  for (Operation *function : visited)
    eraseDeadOps(cast<func::FuncOp>(function).front());
}

/// Checks that every floating-point value is f32, and that nothing has been differentiated yet.
LogicalResult checkForward(ModuleOp module) {
  auto refuse = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && isa<FloatType>(type.getElementType()) && !type.getElementType().isF32();
  };
  WalkResult walked = module.walk([&](Operation *op) -> WalkResult {
    if (op->hasAttr(KerfDialect::kBackwardAttr))
      return op->emitOpError() << "belongs to a gradient; run kerf-mixed-precision before kerf-differentiate";
    SmallVector<Value> values(op->getResults());
    if (auto function = dyn_cast<func::FuncOp>(op))
      llvm::append_range(values, function.getArguments());
    for (Value value : values)
      if (refuse(value))
        return op->emitOpError() << "has a value of type " << value.getType()
                                 << "; mixed precision needs a model in f32: import the model in f32";
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

struct MixedPrecisionPass : kerf::impl::MixedPrecisionBase<MixedPrecisionPass> {
  using MixedPrecisionBase::MixedPrecisionBase;

  LogicalResult check(func::FuncOp main) {
    ModuleOp module = getOperation();
    if (dtype != "bf16" && dtype != "f16")
      return module.emitError() << "unknown 16-bit type '" << dtype << "'; there are bf16 and f16";
    if (lossScale != "none" && lossScale != "dynamic" && lossScale != "static")
      return module.emitError() << "unknown loss-scale '" << lossScale << "'; there are none, dynamic and static";
    if (!main || !main.getBody().hasOneBlock())
      return module.emitError() << "no function @" << KerfDialect::kEntryName
                                << " with one block; import a model first";
    if (main.getNumResults() == 0 || !isFloat(main.front().getTerminator()->getOperand(0)))
      return main.emitOpError() << "has no floating-point value as its first result; that must be the loss";
    return checkForward(module);
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (failed(check(main)))
      return signalPassFailure();
    MLIRContext *context = &getContext();
    FloatType half = dtype == "bf16" ? FloatType(BFloat16Type::get(context)) : FloatType(Float16Type::get(context));
    Narrowing(getOperation(), half).run(main);
    if (lossScale != "none")
      addLossScale(main);
  }

  /// Adds the loss scale as the last argument. kerf-differentiate starts from it; kerf-add-optimizer divides by it and
  /// adapts it.
  void addLossScale(func::FuncOp main) {
    Builder builder(main.getContext());
    SmallVector<NamedAttribute> described = {
        {KerfDialect::kKindAttr, builder.getStringAttr(lossScale == "dynamic" ? "state" : "constant")},
        {KerfDialect::kNameAttr, builder.getStringAttr(KerfDialect::kLossScaleName)}};
    (void)main.insertArgument(main.getNumArguments(), RankedTensorType::get({}, builder.getF32Type()),
                              builder.getDictionaryAttr(described),
                              NameLoc::get(builder.getStringAttr(KerfDialect::kLossScaleName)));
  }
};

} // namespace

std::unique_ptr<Pass> kerf::createMixedPrecision(const PrecisionOptions &options) {
  MixedPrecisionOptions generated;
  generated.dtype = std::string(toString(options.compute));
  generated.lossScale = options.scaling == LossScaling::None      ? "none"
                        : options.scaling == LossScaling::Dynamic ? "dynamic"
                                                                  : "static";
  return createMixedPrecision(std::move(generated));
}
