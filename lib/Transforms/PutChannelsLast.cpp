// SPDX-License-Identifier: Apache-2.0
// kerf-put-channels-last (device level): decides for sets of connected ops whether their tensors have the channels as
// second or as last dimension, and puts transposes where the two meet.
#include "Calls.h"
#include "Matching.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Passes.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_PUTCHANNELSLAST
#include "kerf/Transforms/Passes.h.inc"

namespace {
using Permutation = SmallVector<int64_t>;

/// Returns 0, 2, 3, ..., 1: dimension d of a tensor with channels last is this dimension of the tensor without.
Permutation toLast(int64_t rank) {
  Permutation order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}
/// Returns 0, rank - 1, 1, 2, ...: the inverse of toLast.
Permutation toSecond(int64_t rank) { return inverse(toLast(rank)); }

bool isConvolution(Operation *op) { return isa<ConvolutionOp, ConvolutionTransposeOp, ConvolutionKernelOp>(op); }
/// Returns the operand that is the kernel of a convolution; nothing for other ops.
std::optional<unsigned> kernelOperand(Operation *op) {
  return isa<ConvolutionOp, ConvolutionTransposeOp>(op) ? std::optional(1u) : std::nullopt;
}

/// Returns whether the tensor is large enough to have channels and spatial dimensions.
bool hasChannels(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() >= 3;
}

/// Returns whether the dimensions that a reduction keeps stay in their order where the channels move.
bool keepsOrder(ReduceOp reduce) {
  int64_t rank = tensorType(reduce.getOperand()).getRank(), kept = 0;
  bool keepsChannels = !llvm::is_contained(reduce.getDimensions(), 1);
  for (int64_t d = 2; d < rank; ++d)
    kept += !llvm::is_contained(reduce.getDimensions(), d);
  return !keepsChannels || kept == 0;
}

/// Returns whether the op converts an input of the program to a narrower type. Its result has fewer bytes to transpose.
bool narrowsInput(Operation *op) {
  auto convert = dyn_cast<ConvertOp>(op);
  auto argument = convert ? dyn_cast<BlockArgument>(convert.getOperand()) : nullptr;
  return argument && !cast<func::FuncOp>(argument.getOwner()->getParentOp()).isPrivate() &&
         tensorType(convert.getResult()).getElementTypeBitWidth() < tensorType(argument).getElementTypeBitWidth();
}

/// Returns whether the op can compute with the channels as second and as last dimension.
bool suitsBoth(Operation *op) {
  if (op->getNumResults() != 1 || narrowsInput(op))
    return false;
  if (isConvolution(op))
    return true;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return hasChannels(reduce.getOperand()) && keepsOrder(reduce);
  if (!hasChannels(op->getResult(0)))
    return false;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (isa<BroadcastInDimOp, SliceOp, PadOp, ConcatenateOp, ReduceWindowOp, SelectAndScatterOp>(op))
    return true;
  return op->hasTrait<OpTrait::Elementwise>() && llvm::all_of(op->getOperands(), [&](Value operand) {
           return isa<RankedTensorType>(operand.getType()) && shapeOf(operand) == shapeOf(op->getResult(0));
         });
}
/// Returns whether the op, which suits both, has its own layout in this operand.
bool followsOperand(Operation *op, unsigned operand) {
  return !isa<BroadcastInDimOp>(op) && !(isa<PadOp>(op) && operand == 1) && kernelOperand(op) != operand;
}
/// Returns whether the op, which suits both, has its own layout in its result.
bool followsResult(Operation *op) { return !isa<ReduceOp, ConvolutionKernelOp>(op); }

double tensorBytes(Value value) {
  auto type = tensorType(value);
  return static_cast<double>(type.getNumElements()) * std::max(1u, type.getElementTypeBitWidth() / 8);
}

/// Returns whether a transpose changes nothing in memory, because it moves dimensions of size 1 only.
bool isInPlace(Value value, ArrayRef<int64_t> order) {
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  SmallVector<int64_t> kept;
  llvm::copy_if(order, std::back_inserter(kept), [&](int64_t dim) { return shape[dim] != 1; });
  return llvm::is_sorted(kept);
}

class ChannelsLast {
public:
  ChannelsLast(ModuleOp module, bool anyType) : module(module), symbols(module), anyType(anyType) {}

  void run() {
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kKernelAttr))
        functions.push_back(function);
    for (func::FuncOp function : functions)
      connect(function);
    choose();
    if (chosen.empty())
      return;
    for (func::FuncOp function : functions)
      retype(function);
    for (func::FuncOp function : functions)
      rewrite(function);
    for (func::FuncOp function : functions)
      eraseDeadOps(function.front());
  }

private:
  /// A value, an op, or an operand of a function's return.
  using Key = const void *;
  static Key keyOf(Value value) { return value.getAsOpaquePointer(); }
  static Key keyOf(OpOperand &returned) { return &returned; }

  func::FuncOp calleeOf(CallOp call) { return symbols.lookup<func::FuncOp>(call.getCallee()); }
  static Operation *terminatorOf(func::FuncOp function) { return function.front().getTerminator(); }

  static bool isLayer(func::FuncOp function) {
    return function.isPrivate() && !function.isExternal() && !function->hasAttr(kKernelAttr);
  }

  /// Returns whether the value's layout can be chosen: it is made by an op that suits both, or passed by a call.
  bool isFree(Value value) {
    if (!hasChannels(value))
      return false;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return isLayer(cast<func::FuncOp>(argument.getOwner()->getParentOp()));
    Operation *op = value.getDefiningOp();
    if (auto call = dyn_cast<CallOp>(op))
      return isLayer(calleeOf(call));
    return suitsBoth(op) && followsResult(op);
  }
  /// Gives two things one layout.
  void join(Key key, Value value) {
    if (isFree(value))
      classes.unionSets(key, keyOf(value));
  }
  void connect(func::FuncOp function) {
    for (Operation &op : function.front()) {
      if (auto call = dyn_cast<CallOp>(op)) {
        func::FuncOp callee = calleeOf(call);
        if (!isLayer(callee))
          continue;
        for (auto [operand, argument] : llvm::zip(call.getInputs(), callee.getArguments()))
          if (isFree(argument))
            join(keyOf(argument), operand);
        for (auto [result, returned] : llvm::zip(call.getOutputs(), terminatorOf(callee)->getOpOperands()))
          join(keyOf(returned), result);
      } else if (suitsBoth(&op)) {
        classes.insert(&op);
        for (OpOperand &operand : op.getOpOperands())
          if (followsOperand(&op, operand.getOperandNumber()))
            join(&op, operand.get());
        if (followsResult(&op))
          join(&op, op.getResult(0));
      }
    }
    if (isLayer(function))
      for (OpOperand &returned : terminatorOf(function)->getOpOperands())
        join(keyOf(returned), returned.get());
  }

  Key classOf(Key key) const {
    auto found = classes.findLeader(key);
    return found == classes.member_end() ? nullptr : *found;
  }
  /// Returns the class of the layout in which the op reads the operand, or null if its channels are second.
  Key wanted(OpOperand &operand) {
    Operation *op = operand.getOwner();
    if (auto call = dyn_cast<CallOp>(op))
      return classOf(keyOf(calleeOf(call).getArgument(operand.getOperandNumber())));
    if (op->hasTrait<OpTrait::IsTerminator>())
      return classOf(keyOf(operand));
    return followsOperand(op, operand.getOperandNumber()) ? classOf(op) : nullptr;
  }

  /// Chooses the classes for which moving the channels moves fewer bytes than cuDNN would: it transposes the operand
  /// and the result of a 16-bit convolution whose channels are second, unless each group has a single channel.
  void choose() {
    DenseMap<Key, double> saved; // bytes by class
    DenseMap<Operation *, double> runs;
    for (func::FuncOp function : llvm::reverse(functions)) // callers after callees
      runs[function] = runsOf(function, runs);
    for (func::FuncOp function : functions)
      for (Operation &op : function.front()) {
        if (isConvolution(&op) && pays(&op))
          saved[classOf(&op)] += runs.at(function) * convertedBytes(&op);
        for (OpOperand &operand : op.getOpOperands()) {
          if (!hasChannels(operand.get()) || isa<TransposeOp>(op) || operand.get().getDefiningOp<TransposeOp>() ||
              isInPlace(operand.get(), toLast(tensorType(operand.get()).getRank())))
            continue;
          Key has = isFree(operand.get()) ? classOf(keyOf(operand.get())) : nullptr, wants = wanted(operand);
          for (Key one : {has, wants})
            if (one && has != wants)
              saved[one] -= runs.at(function) * tensorBytes(operand.get());
        }
      }
    for (auto [one, bytes] : saved)
      if (bytes > 0)
        chosen.insert(one);
  }
  double runsOf(func::FuncOp function, const DenseMap<Operation *, double> &known) {
    if (!function.isPrivate())
      return 1;
    double all = 0;
    for (CallOp call : callsOf(module, function))
      all += known.lookup(call->getParentOp());
    return all;
  }
  bool pays(Operation *op) const {
    Type element = tensorType(op->getResult(0)).getElementType();
    Value kernel = isa<ConvolutionKernelOp>(op) ? op->getResult(0) : op->getOperand(1);
    return (anyType || isHalf(element)) && tensorType(kernel).getDimSize(1) > 1;
  }
  static double convertedBytes(Operation *op) {
    return tensorBytes(op->getOperand(0)) +
           tensorBytes(isa<ConvolutionKernelOp>(op) ? op->getOperand(1) : op->getResult(0));
  }

  bool isLast(Key key) const {
    Key leader = key ? classOf(key) : nullptr;
    return leader && chosen.contains(leader);
  }
  static Type movedType(Value value) {
    auto type = tensorType(value);
    return RankedTensorType::get(composed(type.getShape(), toLast(type.getRank())), type.getElementType());
  }
  void move(Value value) {
    value.setType(movedType(value));
    last.insert(value);
  }

  /// Gives all values of chosen classes their new types.
  void retype(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (isLast(keyOf(argument))) {
        move(argument);
        for (StringRef name : {KerfDialect::kGlobalTypeAttr, KerfDialect::kShardingAttr})
          function.removeArgAttr(argument.getArgNumber(), name);
      }
    for (Operation &op : function.front())
      for (Value result : op.getResults())
        if (isLast(keyOf(result)))
          move(result);
  }

  void rewrite(func::FuncOp function) {
    made.clear();
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      if (auto transpose = dyn_cast<TransposeOp>(op); transpose && last.contains(transpose.getOperand())) {
        stale.insert(transpose);
        continue;
      }
      for (OpOperand &operand : op.getOpOperands())
        if (hasChannels(operand.get()))
          operand.set(inLayout(operand.get(), wantsLast(operand), &op));
      if (isLast(&op))
        adapt(&op);
    }
    for (Operation *op : stale) {
      auto transpose = cast<TransposeOp>(op);
      Value made = transposedBefore(op, transpose.getOperand(), currentOrder(transpose), op);
      transpose.getResult().replaceAllUsesWith(made);
    }
    stale.clear();
    if (function.isPrivate())
      function.setFunctionType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                                 terminatorOf(function)->getOperandTypes()));
  }
  bool wantsLast(OpOperand &operand) {
    return isLast(wanted(operand)) ||
           (isLast(operand.getOwner()) && kernelOperand(operand.getOwner()) == operand.getOperandNumber());
  }

  /// Returns the permutation of a transpose, whose operand may have moved.
  Permutation currentOrder(TransposeOp transpose) const {
    ArrayRef<int64_t> order = transpose.getPermutation();
    return stale.contains(transpose) ? composed(toSecond(int64_t(order.size())), order) : Permutation(order);
  }
  /// Returns the value transposed, by one op before `user` with the attributes of `like`. A transpose of a transpose
  /// becomes one.
  Value transposedBefore(Operation *user, Value value, ArrayRef<int64_t> order, Operation *like) const {
    OpBuilder builder(user);
    Emitter emit{builder, like->getLoc()};
    Permutation whole(order);
    if (auto inner = value.getDefiningOp<TransposeOp>()) {
      whole = composed(currentOrder(inner), order);
      value = inner.getOperand();
    }
    Value made = isInPlace(value, whole) ? emit.reshape(value, composed(tensorType(value).getShape(), whole))
                                         : emit.transpose(value, whole);
    if (made != value)
      made.getDefiningOp()->setDiscardableAttrs(like->getDiscardableAttrDictionary());
    return made;
  }

  /// Returns the value with its channels in the wanted place, transposed before `user` if it is not there yet.
  Value inLayout(Value value, bool wantsLast, Operation *user) {
    if (last.contains(value) == wantsLast)
      return value;
    Value &known = made[{value, user->getAttr(KerfDialect::kTaskAttr)}];
    int64_t rank = tensorType(value).getRank();
    if (!known)
      known = transposedBefore(user, value, wantsLast ? toLast(rank) : toSecond(rank), user);
    return known;
  }

  /// Gives the op, whose operands and result have moved, the attributes of its new layout.
  void adapt(Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<ConvolutionOp, ConvolutionTransposeOp>([](auto convolution) { convolution.setChannelsLast(true); })
        .Case([&](ConvolutionKernelOp convolution) {
          convolution.setChannelsLast(true);
          Value result = convolution.getResult();
          result.setType(movedType(result));
          Value back = transposedBefore(op->getNextNode(), result, toSecond(tensorType(result).getRank()), op);
          result.replaceAllUsesExcept(back, back.getDefiningOp());
        })
        .Case<ReduceWindowOp, SelectAndScatterOp>([](auto pool) {
          Permutation order = toLast(int64_t(pool.getWindow().size()));
          pool.setWindow(composed(pool.getWindow(), order));
          pool.setStrides(composed(pool.getStrides(), order));
          pool.setDilations(composed(pool.getDilations(), order));
          pool.setLow(composed(pool.getLow(), order));
          pool.setHigh(composed(pool.getHigh(), order));
        })
        .Case([](SliceOp slice) {
          Permutation order = toLast(int64_t(slice.getStart().size()));
          slice.setStart(composed(slice.getStart(), order));
          slice.setLimit(composed(slice.getLimit(), order));
          slice.setStrides(composed(slice.getStrides(), order));
        })
        .Case([](PadOp pad) {
          Permutation order = toLast(int64_t(pad.getLow().size()));
          pad.setLow(composed(pad.getLow(), order));
          pad.setHigh(composed(pad.getHigh(), order));
          pad.setInterior(composed(pad.getInterior(), order));
        })
        .Case([](ConcatenateOp concatenate) {
          Permutation where = toSecond(tensorType(concatenate.getResult()).getRank());
          concatenate.setDimension(where[concatenate.getDimension()]);
        })
        .Case([](ReduceOp reduce) {
          Permutation where = toSecond(tensorType(reduce.getOperand()).getRank());
          SmallVector<int64_t> dims = composed(where, reduce.getDimensions());
          llvm::sort(dims);
          reduce.setDimensions(dims);
        })
        .Case([&](BroadcastInDimOp broadcast) { adaptBroadcast(broadcast); })
        .Case([](ConstantOp constant) {
          auto elements = cast<DenseElementsAttr>(constant.getValue());
          constant.setValueAttr(elements.resizeSplat(cast<ShapedType>(constant.getResult().getType())));
        });
  }
  /// The operand's dimensions must stay in the order of the result's, so it is transposed if they do not.
  void adaptBroadcast(BroadcastInDimOp broadcast) const {
    Permutation where = toSecond(tensorType(broadcast.getResult()).getRank());
    SmallVector<int64_t> dims = composed(where, broadcast.getBroadcastDimensions());
    Permutation order = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(dims.size())));
    llvm::sort(order, [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
    Value operand = transposedBefore(broadcast, broadcast.getOperand(), order, broadcast);
    llvm::sort(dims);
    broadcast.getOperandMutable().assign(operand);
    broadcast.setBroadcastDimensions(dims);
  }

  ModuleOp module;
  SymbolTable symbols;
  bool anyType;
  SmallVector<func::FuncOp> functions;
  llvm::EquivalenceClasses<Key> classes;
  DenseSet<Key> chosen;               // leaders of the classes whose channels are last
  llvm::SetVector<Operation *> stale; // transposes of the model whose operands have moved, in the function at hand
  DenseSet<Value> last;               // values whose channels are last
  DenseMap<std::pair<Value, Attribute>, Value> made; // transposed values, by value and task
};

struct PutChannelsLast : impl::PutChannelsLastBase<PutChannelsLast> {
  using PutChannelsLastBase::PutChannelsLastBase;
  void runOnOperation() override { ChannelsLast(getOperation(), anyType).run(); }
};

} // namespace
} // namespace kerf
