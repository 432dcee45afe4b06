// SPDX-License-Identifier: Apache-2.0
// kerf-outline-layers: makes one function of each repeated layer. Repeats.h finds the layers; this file creates the
// function and its calls.
#include "Calls.h"
#include "Repeats.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace kerf {
#define GEN_PASS_DEF_OUTLINELAYERS
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

namespace {

/// Returns the longest module scope that the ops of a segment share, or "" where there is none.
std::string commonScope(ArrayRef<Operation *> ops) {
  SmallVector<std::string> common;
  bool first = true;
  for (Operation *op : ops) {
    std::string scope = moduleScope(op->getLoc());
    if (scope.empty())
      continue;
    SmallVector<StringRef> parts;
    StringRef(scope).split(parts, '.');
    if (first)
      common.assign(parts.begin(), parts.end());
    first = false;
    size_t length = 0;
    while (length < std::min<size_t>(common.size(), parts.size()) && common[length] == parts[length])
      ++length;
    common.resize(length);
  }
  return llvm::join(common, ".");
}

/// Returns whether the op is a constant or the broadcast of one, which costs less to compute again than to pass on.
bool isConstant(Operation *op) {
  auto broadcast = dyn_cast<BroadcastInDimOp>(op);
  return isa<ConstantOp>(op) || (broadcast && broadcast.getOperand().getDefiningOp<ConstantOp>());
}

/// The values at the same position of all segments.
using Slot = std::vector<Value>;

class Outliner {
public:
  Outliner(const OpSequence &sequence, Repeat repeat, func::FuncOp main, SymbolTable &symbols)
      : sequence(sequence), repeat(repeat), main(main), symbols(symbols), builder(main.getContext()) {}

  void run() {
    builder.setInsertionPoint(main);
    layer = func::FuncOp::create(builder, segment(0).front()->getLoc(), "layer", builder.getFunctionType({}, {}));
    layer.setPrivate();
    symbols.insert(layer);
    builder.setInsertionPointToStart(layer.addEntryBlock());
    buildBody();
    replaceSegments();
  }

private:
  ArrayRef<Operation *> segment(int64_t k) const {
    return ArrayRef(sequence.ops).slice(repeat.start + k * repeat.period, repeat.period);
  }

  Slot operandSlot(ArrayRef<Operation *> instances, unsigned operand) const {
    Slot slot;
    for (Operation *op : instances)
      slot.push_back(op->getOperand(operand));
    return slot;
  }

  /// Returns the value inside of the function that stands for `slot`, a value that each segment takes from outside.
  Value materialize(const Slot &slot) {
    std::vector<void *> key;
    for (Value value : slot)
      key.push_back(value.getAsOpaquePointer());
    Value &known = outside[key];
    if (!known)
      known = cloneInvariant(slot);
    if (!known) {
      known = layer.getBody().front().addArgument(slot[0].getType(), slot[0].getLoc());
      arguments.push_back(slot);
    }
    return known;
  }

  /// Constants, their broadcasts, and invariants that each layer computes in the same way from other arguments (a mask
  /// of its own) are cloned into the function.
  Value cloneInvariant(const Slot &slot) {
    Operation *first = slot[0].getDefiningOp();
    if (!first || !sequence.isInvariant(first))
      return {};
    if (!isConstant(first) && llvm::all_equal(slot))
      return {};
    unsigned result = cast<OpResult>(slot[0]).getResultNumber();
    SmallVector<Operation *> instances;
    for (Value value : slot) {
      Operation *op = value.getDefiningOp();
      if (!op || !sequence.isInvariant(op) || sequence.invariantKind(op) != sequence.invariantKind(first) ||
          cast<OpResult>(value).getResultNumber() != result)
        return {};
      instances.push_back(op);
    }
    SmallVector<Value> operands;
    for (unsigned j = 0; j < first->getNumOperands(); ++j)
      operands.push_back(materialize(operandSlot(instances, j)));
    Operation *clone = builder.clone(*first);
    clone->setOperands(operands);
    return clone->getResult(result);
  }

  void buildBody() {
    DenseSet<Operation *> inside(segment(0).begin(), segment(0).end());
    IRMapping mapping;
    for (int64_t i = 0; i < repeat.period; ++i) {
      SmallVector<Operation *> instances;
      for (int64_t k = 0; k < repeat.count; ++k)
        instances.push_back(segment(k)[i]);
      SmallVector<Value> operands;
      for (unsigned j = 0; j < instances[0]->getNumOperands(); ++j) {
        Value operand = instances[0]->getOperand(j);
        bool internal = operand.getDefiningOp() && inside.contains(operand.getDefiningOp());
        operands.push_back(internal ? mapping.lookup(operand) : materialize(operandSlot(instances, j)));
      }
      Operation *clone = builder.clone(*instances[0]);
      clone->setOperands(operands);
      SmallVector<Location> names; // the op's names in all layers, for pins of a single layer (nodeInCall)
      for (Operation *op : instances)
        names.push_back(op->getLoc());
      clone->setLoc(FusedLoc::get(clone->getContext(), names));
      mapping.map(instances[0]->getResults(), clone->getResults());
    }

    SmallVector<Value> returned;
    for (int64_t i = 0; i < repeat.period; ++i)
      for (unsigned r = 0; r < segment(0)[i]->getNumResults(); ++r)
        if (usedOutside(i, r)) {
          results.push_back({i, r});
          returned.push_back(mapping.lookup(segment(0)[i]->getResult(r)));
        }
    func::ReturnOp::create(builder, layer.getLoc(), returned);
    layer.setFunctionType(
        builder.getFunctionType(layer.getBody().front().getArgumentTypes(), ValueRange(returned).getTypes()));
  }

  bool usedOutside(int64_t index, unsigned result) const {
    for (int64_t k = 0; k < repeat.count; ++k) {
      int64_t start = repeat.start + k * repeat.period;
      for (Operation *user : segment(k)[index]->getResult(result).getUsers()) {
        int64_t position = user->getNumResults() ? sequence.definedAt(user->getResult(0)) : -1;
        if (position < start || position >= start + repeat.period)
          return true;
      }
    }
    return false;
  }

  void replaceSegments() {
    SmallVector<std::string> scopes;
    for (int64_t k = 0; k < repeat.count; ++k)
      scopes.push_back(commonScope(segment(k)));
    for (int64_t k = 0; k < repeat.count; ++k) {
      SmallVector<Value> operands;
      for (Slot &slot : arguments)
        operands.push_back(slot[k]);
      builder.setInsertionPoint(segment(k).front());
      std::string name = scopes[k].empty() ? layer.getSymName().str() + "." + std::to_string(k) : scopes[k];
      auto call = CallOp::create(builder, NameLoc::get(builder.getStringAttr(name)), layer.getResultTypes(),
                                 layer.getSymName(), operands);
      for (auto [place, value] : llvm::zip(results, call.getResults())) {
        Value old = segment(k)[place.first]->getResult(place.second);
        old.replaceAllUsesWith(value);
        for (Slot &slot : arguments)
          std::replace(slot.begin(), slot.end(), old, Value(value));
      }
      for (Operation *op : llvm::reverse(segment(k)))
        op->erase();
    }
  }

  const OpSequence &sequence;
  Repeat repeat;
  func::FuncOp main;
  SymbolTable &symbols;
  OpBuilder builder;
  func::FuncOp layer;
  /// The operand of call k for argument i of the function is arguments[i][k].
  std::vector<Slot> arguments;
  /// The results of the function: index of the op in the segment, and index of the op's result.
  SmallVector<std::pair<int64_t, unsigned>> results;
  std::map<std::vector<void *>, Value> outside;
};

struct OutlineLayersPass : kerf::impl::OutlineLayersBase<OutlineLayersPass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!main || !main.getBody().hasOneBlock()) {
      getOperation().emitError() << "no function @" << KerfDialect::kEntryName
                                 << " with one block; import a model first";
      return signalPassFailure();
    }
    SymbolTable symbols(getOperation());
    Block &block = main.getBody().front();
    while (true) {
      OpSequence sequence(block);
      std::optional<Repeat> repeat = findRepeat(sequence);
      if (!repeat)
        return;
      hoistInvariants(block, sequence);
      Outliner(sequence, *repeat, main, symbols).run();
      eraseDeadOps(block);
    }
  }

  /// Moves invariants to the front, in their order, so that a layer may be called where its first op stood.
  static void hoistInvariants(Block &block, const OpSequence &sequence) {
    Operation *front = sequence.ops.front();
    SmallVector<Operation *> late;
    for (Operation *op = front->getNextNode(); op; op = op->getNextNode())
      if (sequence.isInvariant(op))
        late.push_back(op);
    for (Operation *op : late)
      op->moveBefore(front);
  }
};
} // namespace
