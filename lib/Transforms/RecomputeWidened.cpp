// SPDX-License-Identifier: Apache-2.0
// kerf-recompute-widened (device level): where a few pointwise ops compute a large tensor from narrower ones, the ops
// that read the tensor compute it again from these. A sum that one kernel of another function reads becomes part of it.
#include "Calls.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_RECOMPUTEWIDENED
#include "kerf/Transforms/Passes.h.inc"

namespace {
constexpr size_t kMostRecomputed = 8;  // ops; they cost less than reading 4 bytes from the memory of a GPU
constexpr int64_t kFewElements = 1024; // smaller tensors stay as they are
constexpr int64_t kVector = 8;         // a broadcast operand has at most this part of the elements

int64_t storedBytes(Value value) {
  auto type = tensorType(value);
  return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
}

bool isCheap(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() && !op->hasTrait<ManyInstructions>() && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isa<RankedTensorType>(operand.getType()) && shapeOf(operand) == shapeOf(op->getResult(0));
         });
}
/// Returns whether the op can be part of a fused kernel.
bool isFusible(Operation *op) { return op->hasTrait<OpTrait::Elementwise>() || isa<ReduceOp>(op); }

/// The ops that compute a tensor from tensors of its shape (`sources`) and from small ones.
struct Formula {
  llvm::SetVector<Operation *> ops; // in an order in which they can run
  llvm::SetVector<Value> sources, vectors;

  int64_t sourceBytes() const {
    int64_t bytes = 0;
    for (Value source : sources)
      bytes += storedBytes(source);
    return bytes;
  }
  SmallVector<Value> leaves() const {
    SmallVector<Value> all(sources.begin(), sources.end());
    all.append(vectors.begin(), vectors.end());
    return all;
  }
};

/// Adds what computes `value`, an operand of the formula for `root`; a 16-bit value is a source. Returns false if it is
/// no part of a cheap formula.
bool addOperand(Formula &formula, Value value, Value root) {
  Operation *op = value.getDefiningOp();
  if (op && formula.ops.contains(op))
    return true;
  if (formula.ops.size() >= kMostRecomputed)
    return false;
  if (auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(op)) {
    Value small = broadcast.getOperand();
    if (tensorType(small).getNumElements() * kVector > tensorType(root).getNumElements())
      return false;
    if (auto constant = small.getDefiningOp<ConstantOp>())
      formula.ops.insert(constant);
    else
      formula.vectors.insert(small);
    formula.ops.insert(op);
    return true;
  }
  if (op && isCheap(op) && !isHalf(tensorType(value).getElementType())) {
    for (Value operand : op->getOperands())
      if (!addOperand(formula, operand, root))
        return false;
    formula.ops.insert(op);
    return formula.ops.size() <= kMostRecomputed;
  }
  formula.sources.insert(value);
  return true;
}

/// Returns the formula of a large tensor whose sources have at most as many bytes as the tensor.
std::optional<Formula> formulaOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (!type || !op || !isa<FloatType>(type.getElementType()) || type.getNumElements() < kFewElements || !isCheap(op))
    return std::nullopt;
  Formula formula;
  for (Value operand : op->getOperands())
    if (!addOperand(formula, operand, value))
      return std::nullopt;
  formula.ops.insert(op);
  if (formula.sources.empty() || formula.ops.size() > kMostRecomputed || formula.sourceBytes() > storedBytes(value))
    return std::nullopt;
  return formula;
}
/// Returns the formula if its sources have fewer bytes than the tensor.
std::optional<Formula> narrowFormulaOf(Value value) {
  std::optional<Formula> formula = formulaOf(value);
  return formula && formula->sourceBytes() < storedBytes(value) ? formula : std::nullopt;
}

/// Returns whether one op reads the value, or a function to which one call passes it, and only ops that can be part of a
/// fused kernel read it there. They run in the same pass and task, so that what the value is computed from need not be
/// kept until the backward pass.
bool isReadByOneKernel(Value value, SymbolTable &symbols) {
  if (!value.hasOneUse())
    return false;
  OpOperand &use = *value.use_begin();
  for (StringRef attribute : {KerfDialect::kBackwardAttr, KerfDialect::kTaskAttr})
    if (use.getOwner()->getAttr(attribute) != value.getDefiningOp()->getAttr(attribute))
      return false;
  auto call = dyn_cast<CallOp>(use.getOwner());
  if (!call)
    return isFusible(use.getOwner());
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  return callee && callee.isPrivate() && !callee.isExternal() &&
         llvm::all_of(callee.getArgument(use.getOperandNumber()).getUsers(), isFusible);
}

/// Returns the formula of a sum of two tensors of its type.
std::optional<Formula> sumOf(Value value) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || add.getLhs() == add.getRhs() || tensorType(value).getNumElements() < kFewElements)
    return std::nullopt;
  Formula formula;
  formula.sources.insert(add.getLhs());
  formula.sources.insert(add.getRhs());
  formula.ops.insert(add);
  return formula;
}

/// Copies the ops of a formula, whose leaves `mapping` may replace, with the discardable attributes `attributes`.
/// Returns the copy of `root`.
Value copyFormula(OpBuilder &builder, const Formula &formula, IRMapping &mapping, Value root,
                  DictionaryAttr attributes) {
  for (Operation *op : formula.ops)
    builder.clone(*op, mapping)->setDiscardableAttrs(attributes);
  return mapping.lookup(root);
}

/// Returns a text that formulas have in common if they differ in their leaves only.
std::string textOf(const Formula &formula) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  DenseMap<Value, size_t> numbers;
  for (Value leaf : formula.leaves()) {
    stream << leaf.getType() << ' ';
    numbers.try_emplace(leaf, numbers.size());
  }
  for (Operation *op : formula.ops) {
    stream << op->getName() << op->getResult(0).getType() << op->getPropertiesAsAttribute();
    for (Value operand : op->getOperands())
      stream << ' ' << numbers.lookup(operand);
    numbers.try_emplace(op->getResult(0), numbers.size());
  }
  return text;
}

/// Returns the 16-bit type from which a float32 value is converted, also if it has been sliced or negated since; null
/// for any other value.
Type typeBeforeWidening(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<ConvertOp, SliceOp, NegateOp>(op) || !tensorType(value).getElementType().isF32())
    return {};
  if (!isa<ConvertOp>(op))
    return typeBeforeWidening(op->getOperand(0));
  Type from = tensorType(op->getOperand(0)).getElementType();
  return isHalf(from) ? from : Type();
}

/// Copies an op with other operands and another element type of its result.
Value copyAs(Operation *op, ValueRange operands, Type element) {
  OpBuilder builder(op);
  Operation *made = builder.clone(*op);
  made->setOperands(operands);
  made->getResult(0).setType(tensorType(op->getResult(0)).clone(element));
  return made->getResult(0);
}
/// Returns a value for which typeBeforeWidening is not null in that type.
Value beforeWidening(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa<ConvertOp>(op))
    return op->getOperand(0);
  return copyAs(op, beforeWidening(op->getOperand(0)), typeBeforeWidening(value));
}

/// Concatenates large 16-bit tensors before they are widened, where they would be concatenated as float32 tensors.
void concatenateBeforeWidening(Block &block) {
  for (ConcatenateOp concatenate : llvm::make_early_inc_range(block.getOps<ConcatenateOp>())) {
    Value wide = concatenate.getResult();
    Type half = typeBeforeWidening(concatenate.getInputs().front());
    if (!half || tensorType(wide).getNumElements() < kFewElements ||
        !llvm::all_of(concatenate.getInputs(), [&](Value input) { return typeBeforeWidening(input) == half; }))
      continue;
    SmallVector<Value> inputs;
    for (Value input : concatenate.getInputs())
      inputs.push_back(beforeWidening(input));
    Value narrow = copyAs(concatenate, inputs, half);
    OpBuilder builder(concatenate);
    auto convert = ConvertOp::create(builder, concatenate.getLoc(), wide.getType(), narrow);
    convert->setDiscardableAttrs(concatenate->getDiscardableAttrDictionary());
    wide.replaceAllUsesWith(convert.getResult());
  }
}

struct RecomputeWidened : impl::RecomputeWidenedBase<RecomputeWidened> {
  void runOnOperation() override {
    SymbolTable symbolsOfModule(getOperation());
    symbols = &symbolsOfModule;
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kKernelAttr))
        functions.push_back(function);
    for (func::FuncOp function : functions)
      if (function.isPrivate() && failed(returnSources(function)))
        return signalPassFailure();
    for (func::FuncOp function : functions)
      if (function.isPrivate() && failed(passSources(function)))
        return signalPassFailure();
    for (func::FuncOp function : functions) {
      concatenateBeforeWidening(function.front());
      recompute(function.front());
    }
    for (func::FuncOp function : functions)
      eraseDeadOps(function.front());
    pruneCalls(getOperation());
  }

private:
  /// Returns the formula of result `i` of a function if its callers are to compute the result.
  std::optional<Formula> formulaOfResult(func::FuncOp function, unsigned i) {
    Value value = function.front().getTerminator()->getOperand(i);
    if (std::optional<Formula> narrow = narrowFormulaOf(value))
      return narrow;
    bool isPassedOn = value.hasOneUse() && llvm::all_of(callsOf(getOperation(), function), [&](CallOp call) {
                        return isReadByOneKernel(call.getResult(i), *symbols);
                      });
    return isPassedOn ? sumOf(value) : std::nullopt;
  }

  /// Returns the formula of an operand of a call if the called function is to compute the operand.
  std::optional<Formula> formulaOfOperand(CallOp call, unsigned i) {
    Value value = call.getInputs()[i];
    if (std::optional<Formula> narrow = narrowFormulaOf(value))
      return narrow;
    std::optional<Formula> sum = sumOf(value);
    return sum && isReadByOneKernel(value, *symbols) ? sum : std::nullopt;
  }

  /// Lets a function return the leaves of the formulas of its results, so that its callers compute the results.
  LogicalResult returnSources(func::FuncOp function) {
    Operation *returned = function.front().getTerminator();
    SmallVector<std::pair<unsigned, Formula>> formulas;
    SmallVector<Value> added;
    llvm::DenseMap<Value, unsigned> results; // numbers of the results that are leaves
    for (auto [i, value] : llvm::enumerate(returned->getOperands()))
      results.try_emplace(value, unsigned(i));
    for (auto [i, value] : llvm::enumerate(returned->getOperands()))
      if (std::optional<Formula> formula = formulaOfResult(function, unsigned(i))) {
        for (Value leaf : formula->leaves())
          if (!isa<BlockArgument>(leaf) && results.try_emplace(leaf, results.size()).second)
            added.push_back(leaf);
        formulas.push_back({unsigned(i), std::move(*formula)});
      }
    if (formulas.empty())
      return success();
    unsigned before = returned->getNumOperands();
    for (size_t i = 0; i < added.size(); ++i)
      results[added[i]] = before + unsigned(i);
    SmallVector<unsigned> places(added.size(), before);
    SmallVector<DictionaryAttr> none(added.size(), DictionaryAttr::get(function.getContext()));
    returned->insertOperands(before, added);
    if (failed(function.insertResults(places, ValueRange(added).getTypes(), none)))
      return failure();
    for (CallOp old : callsOf(getOperation(), function)) {
      CallOp call = rebuildCall(old, old.getInputs(), returned->getOperandTypes(), [](int64_t i) { return i; });
      OpBuilder builder(call->getContext());
      builder.setInsertionPointAfter(call);
      for (auto &[i, formula] : formulas) {
        IRMapping mapping;
        for (Value leaf : formula.leaves()) {
          auto argument = dyn_cast<BlockArgument>(leaf);
          mapping.map(leaf, argument ? call.getInputs()[argument.getArgNumber()] : call.getResult(results.at(leaf)));
        }
        Value made =
            copyFormula(builder, formula, mapping, returned->getOperand(i), call->getDiscardableAttrDictionary());
        call.getResult(i).replaceAllUsesWith(made);
      }
    }
    return success();
  }

  /// Passes the leaves of the formulas of arguments to a function, if they are alike in all calls.
  LogicalResult passSources(func::FuncOp function) {
    SmallVector<CallOp> calls = callsOf(getOperation(), function);
    if (calls.empty())
      return success();
    OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
    for (unsigned i = 0, count = function.getNumArguments(); i < count; ++i) {
      SmallVector<Formula> formulas;
      for (CallOp call : calls)
        if (std::optional<Formula> formula = formulaOfOperand(call, i))
          formulas.push_back(std::move(*formula));
      auto isOther = [&](const Formula &other) { return textOf(other) != textOf(formulas.front()); };
      if (formulas.size() != calls.size() || llvm::any_of(formulas, isOther))
        continue;
      IRMapping mapping;
      for (Value leaf : formulas.front().leaves()) {
        unsigned place = function.getNumArguments();
        if (failed(function.insertArgument(place, leaf.getType(), DictionaryAttr::get(function.getContext()),
                                           leaf.getLoc())))
          return failure();
        mapping.map(leaf, function.getArgument(place));
      }
      for (auto [call, formula] : llvm::zip(calls, formulas))
        call.getInputsMutable().append(formula.leaves());
      Value made = copyFormula(builder, formulas.front(), mapping, calls.front().getInputs()[i],
                               DictionaryAttr::get(function.getContext()));
      function.getArgument(i).replaceAllUsesWith(made);
    }
    return success();
  }

  /// Copies the formula of each value to the ops that read it and can become one kernel with it. If only one op reads
  /// the value, the formula moves to this op, so that narrower tensors are kept until then.
  void recompute(Block &block) {
    SmallVector<Operation *> ops; // without the copies that are made below
    for (Operation &op : block)
      ops.push_back(&op);
    for (Operation *op : ops) {
      if (op->getNumResults() != 1 || op->use_empty())
        continue;
      Value value = op->getResult(0);
      SmallVector<Operation *> users;
      llvm::SetVector<Operation *> all(value.user_begin(), value.user_end());
      llvm::copy_if(all, std::back_inserter(users), isFusible);
      bool isOnlyNarrow = all.size() == 1 || users.size() != all.size();
      std::optional<Formula> formula = isOnlyNarrow ? narrowFormulaOf(value) : formulaOf(value);
      if (!formula)
        continue;
      for (Operation *user : users) {
        OpBuilder builder(user);
        IRMapping mapping;
        Value made = copyFormula(builder, *formula, mapping, value, user->getDiscardableAttrDictionary());
        user->replaceUsesOfWith(value, made);
      }
    }
  }

  SymbolTable *symbols = nullptr; // of the module
};

} // namespace
} // namespace kerf
