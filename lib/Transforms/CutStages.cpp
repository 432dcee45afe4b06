// SPDX-License-Identifier: Apache-2.0
// kerf-cut-stages: divides the forward pass at ops that a plan names. A layer that is divided becomes one function for
// each of its pipeline parts, and so do ops outside of layers whose position does not determine their part. Each part
// is then a sequence of calls.
#include "Calls.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include <map>
#include <set>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_CUTSTAGES
#include "kerf/Transforms/Passes.h.inc"

namespace {

constexpr int64_t kNone = -1;

/// The kinds of arguments on which a value depends.
enum Flow : unsigned { kOfInputs = 1, kOfTrained = 2, kOfBoth = 3 };
using Flows = DenseMap<Value, unsigned>;

/// Returns whether the op belongs to one pipeline part, because it depends on inputs and on trained arguments. All
/// other ops are computed wherever they are needed.
bool isCut(Operation *op, const Flows &flows) {
  return isa<CallOp>(op) ||
         llvm::any_of(op->getResults(), [&](Value result) { return flows.lookup(result) == kOfBoth; });
}

void spread(Block &block, Flows &flows) {
  for (Operation &op : block.without_terminator()) {
    unsigned its = 0;
    for (Value operand : op.getOperands())
      its |= flows.lookup(operand);
    for (Value result : op.getResults())
      flows[result] = its;
  }
}

class Cutter {
public:
  Cutter(ModuleOp module, func::FuncOp main)
      : module(module), main(main), block(main.getBody().front()), symbols(module) {}

  LogicalResult run(ArrayRef<std::string> until);

private:
  /// Ops that become one function: either ops outside of layers, of one part and with the same number of calls before
  /// them, or the ops of one layer in one part.
  struct Group {
    int64_t layer, part, depth;
    auto operator<=>(const Group &) const = default;
  };

  void findFlows();
  Flows flowsInside(CallOp call);
  void nameLayers();
  LogicalResult match(ArrayRef<std::string> until);
  bool goesThrough(CallOp call, ArrayRef<Operation *> matched);
  void inlineCall(CallOp call);
  LogicalResult findParts(ArrayRef<std::string> until);
  void findGroups();
  bool spreadDepths();
  void outline(const Group &group, ArrayRef<Operation *> ops);
  Value materialize(Value value, func::FuncOp function, OpBuilder &builder, IRMapping &mapping,
                    SmallVector<Value> &arguments);
  void sort();

  int64_t layerOf(Operation *op) const {
    auto found = layers.find(op);
    return found == layers.end() ? kNone : found->second;
  }
  bool isCall(Operation *op) const { return isa<CallOp>(op); }
  int64_t &depthOf(Operation *op) {
    int64_t layer = layerOf(op);
    return layer == kNone ? depths[op] : depthOfPiece[{layer, parts.lookup(op)}];
  }

  ModuleOp module;
  func::FuncOp main;
  Block &block;
  SymbolTable symbols;
  Flows flows; // for values of @main
  std::vector<NamedOp> names;
  std::vector<std::vector<NamedOp>> matches;                   // for each cut, the ops that its pattern matches
  DenseMap<Operation *, int64_t> layers;                       // the layer that an inlined op comes from
  std::vector<std::pair<std::string, std::string>> layerNames; // of inlined layers: name of the function, module scope
  DenseMap<Operation *, int64_t> parts;
  DenseMap<Operation *, int64_t> depths; // number of calls before an op outside of layers
  std::map<std::pair<int64_t, int64_t>, int64_t> depthOfPiece;
  std::set<std::pair<int64_t, int64_t>> outlined; // part and depth of ops outside of layers that become a function
};

void Cutter::findFlows() {
  flows.clear();
  for (BlockArgument argument : block.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto kind = main.getArgAttrOfType<StringAttr>(index, KerfDialect::kKindAttr);
    bool trained =
        main.getArgAttr(index, KerfDialect::kTrainableAttr) || main.getArgAttr(index, KerfDialect::kUpdatedByAttr);
    bool input = kind && kind.getValue() == "input";
    flows[argument] = (trained ? kOfTrained : 0u) | (input ? kOfInputs : 0u);
  }
  spread(block, flows);
}

Flows Cutter::flowsInside(CallOp call) {
  Flows inside;
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments()))
    inside[inner] = flows.lookup(outer);
  spread(callee.front(), inside);
  return inside;
}

/// A layer whose module scope was not recorded gets the scope "layer.0", "layer.1", ...
void Cutter::nameLayers() {
  for (auto [number, call] : llvm::enumerate(block.getOps<CallOp>()))
    if (nodeName(call.getLoc()).empty())
      call->setLoc(NameLoc::get(StringAttr::get(call.getContext(), "layer." + std::to_string(number))));
}

LogicalResult Cutter::match(ArrayRef<std::string> until) {
  for (const std::string &pattern : until) {
    std::vector<NamedOp> &found = matches.emplace_back();
    for (const NamedOp &named : names)
      if (matchesKey(pattern, named.name))
        found.push_back(named);
    if (found.empty()) {
      auto error = main.emitError() << "stages: until \"" << pattern << "\" matches no operator of the forward pass";
      if (!names.empty())
        error << "; these are \"" << names.front().name.key << "\" to \"" << names.back().name.key
              << "\", with a layer's number in place of *";
      return error;
    }
  }
  return success();
}

/// Returns whether the matched ops of a layer depend on only some of the layer's ops, so that the layer is divided.
bool Cutter::goesThrough(CallOp call, ArrayRef<Operation *> matched) {
  DenseSet<Operation *> needed(matched.begin(), matched.end());
  Flows inside = flowsInside(call);
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  bool leavesOut = false;
  for (Operation &op : llvm::reverse(callee.front().without_terminator())) {
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return needed.contains(user); }))
      needed.insert(&op);
    leavesOut |= !needed.contains(&op) && isCut(&op, inside);
  }
  return leavesOut;
}

void Cutter::inlineCall(CallOp call) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  const SmallVector<CallOp> calls = callsOf(module, callee);
  auto layer = static_cast<int64_t>(layerNames.size());
  layerNames.emplace_back(callee.getName().str(), nodeName(call.getLoc()));
  OpBuilder builder(call);
  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getInputs());
  for (Operation &op : callee.front().without_terminator()) {
    Operation *made = builder.clone(op, mapping);
    made->setLoc(NameLoc::get(builder.getStringAttr(nodeInCall(&op, call, calls))));
    layers[made] = layer;
    for (std::vector<NamedOp> &found : matches)
      for (NamedOp &named : found)
        if (named.call == call && named.op == &op)
          named = {named.name, made, {}};
  }
  for (auto [result, returned] : llvm::zip(call.getResults(), callee.front().getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookup(returned));
  call.erase();
}

/// Assigns parts: a part holds the ops that its pattern matches and all ops that they depend on and no earlier part
/// holds. The last part holds the remaining ops on which the loss depends.
LogicalResult Cutter::findParts(ArrayRef<std::string> until) {
  for (size_t part = 0; part < until.size(); ++part) {
    SmallVector<Operation *> open;
    for (NamedOp &named : matches[part])
      open.push_back(named.call ? named.call.getOperation() : named.op);
    bool any = false;
    DenseSet<Operation *> seen;
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      if (!seen.insert(op).second || parts.contains(op))
        continue;
      if (isCut(op, flows)) {
        parts[op] = static_cast<int64_t>(part);
        any = true;
      }
      for (Value operand : op->getOperands())
        if (Operation *definer = operand.getDefiningOp())
          open.push_back(definer);
    }
    if (!any)
      return main.emitError() << "stages: until \"" << until[part] << "\" leaves no operator for part " << part
                              << " of the pipeline, because the operators that it matches are in an earlier part, or "
                                 "depend on inputs alone; end this part at a later operator";
  }
  DenseSet<Operation *> leads; // ops on which the loss depends; others (running statistics) follow their operands
  leads.insert(block.getTerminator()->getOperand(0).getDefiningOp());
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return leads.contains(user); }))
      leads.insert(&op);
  bool rest = false;
  for (Operation &op : block.without_terminator()) {
    if (!isCut(&op, flows) || parts.contains(&op))
      continue;
    int64_t part = 0;
    for (Value operand : op.getOperands())
      if (auto found = parts.find(operand.getDefiningOp()); found != parts.end())
        part = std::max(part, found->second);
    parts[&op] = leads.contains(&op) ? static_cast<int64_t>(until.size()) : part;
    rest |= leads.contains(&op);
  }
  if (!rest)
    return main.emitError() << "stages: until \"" << until.back()
                            << "\" leaves no operator for the last part; end the part before it at an earlier operator";
  return success();
}

bool Cutter::spreadDepths() {
  bool changed = false;
  for (Operation &op : block.without_terminator()) {
    if (!parts.contains(&op))
      continue;
    int64_t depth = 0;
    for (Value operand : op.getOperands()) {
      Operation *definer = operand.getDefiningOp();
      if (!definer || !parts.contains(definer))
        continue;
      int64_t layer = layerOf(definer);
      bool samePiece = layer != kNone && layer == layerOf(&op) && parts[definer] == parts[&op];
      bool ofCall = isCall(definer) || layer != kNone;
      if (!samePiece)
        depth = std::max(depth, depthOf(definer) + (ofCall ? 1 : 0));
    }
    if (int64_t &known = depthOf(&op); depth > known) {
      known = depth;
      changed = true;
    }
  }
  return changed;
}

/// Finds the ops outside of layers that become functions. An op may stay in @main where kerf-assign-tasks finds its
/// part: before all calls, after all calls, or in the part that its operands come from.
void Cutter::findGroups() {
  while (spreadDepths())
    ;
  int64_t last = 0;
  for (auto [op, part] : parts)
    last = std::max(last, part);
  for (bool changed = true; changed;) {
    changed = false;
    auto given = [&](Operation *op) {
      return isCall(op) || layerOf(op) != kNone ||
             (parts.contains(op) && outlined.contains({parts.lookup(op), depths.lookup(op)}));
    };
    DenseSet<Operation *> leads; // ops on which a call or a named op depends
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (llvm::any_of(op.getUsers(), [&](Operation *user) { return given(user) || leads.contains(user); }))
        leads.insert(&op);
    for (Operation &op : block.without_terminator()) {
      if (!parts.contains(&op) || given(&op))
        continue;
      int64_t found = leads.contains(&op) ? 0 : last;
      if (leads.contains(&op))
        for (Value operand : op.getOperands())
          if (Operation *definer = operand.getDefiningOp(); definer && parts.contains(definer))
            found = std::max(found, parts.lookup(definer));
      if (found != parts.lookup(&op))
        changed |= outlined.insert({parts.lookup(&op), depths.lookup(&op)}).second;
    }
  }
}

/// Constants and views of parameters are created inside of the function. Other values that are computed from parameters
/// alone become arguments, because the gradient of such a value is summed over microbatches before it is used.
Value Cutter::materialize(Value value, func::FuncOp function, OpBuilder &builder, IRMapping &mapping,
                          SmallVector<Value> &arguments) {
  if (mapping.contains(value))
    return mapping.lookup(value);
  Operation *definer = value.getDefiningOp();
  bool constant = flows.lookup(value) == 0,
       view = definer && (definer->hasTrait<SameValue>() || isa<BroadcastInDimOp>(definer));
  if (definer && !(flows.lookup(value) & kOfInputs) && (constant || view)) {
    for (Value operand : definer->getOperands())
      materialize(operand, function, builder, mapping, arguments);
    builder.clone(*definer, mapping);
    return mapping.lookup(value);
  }
  arguments.push_back(value);
  mapping.map(value, function.front().addArgument(value.getType(), value.getLoc()));
  return mapping.lookup(value);
}

void Cutter::outline(const Group &group, ArrayRef<Operation *> ops) {
  bool isLayer = group.layer != kNone;
  std::string name = isLayer ? layerNames[group.layer].first + "_piece" : "part";
  std::string module = isLayer ? layerNames[group.layer].second : "part " + std::to_string(group.part);
  OpBuilder builder(main);
  auto function = func::FuncOp::create(builder, ops.front()->getLoc(), name, builder.getFunctionType({}, {}));
  function.setPrivate();
  symbols.insert(function);
  builder.setInsertionPointToStart(function.addEntryBlock());
  IRMapping mapping;
  SmallVector<Value> arguments, results, returned;
  DenseSet<Operation *> inside(ops.begin(), ops.end());
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()))
        materialize(operand, function, builder, mapping, arguments);
    builder.clone(*op, mapping);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); })) {
        results.push_back(result);
        returned.push_back(mapping.lookup(result));
      }
  }
  func::ReturnOp::create(builder, function.getLoc(), returned);
  function.setFunctionType(
      builder.getFunctionType(function.front().getArgumentTypes(), ValueRange(returned).getTypes()));
  builder.setInsertionPoint(ops.front());
  auto call = CallOp::create(builder, NameLoc::get(builder.getStringAttr(module)), function.getResultTypes(),
                             function.getSymName(), arguments);
  parts[call] = group.part;
  for (auto [old, result] : llvm::zip(results, call.getResults())) {
    flows[result] = flows.lookup(old);
    old.replaceAllUsesWith(result);
  }
  for (Operation *op : llvm::reverse(ops)) {
    parts.erase(op);
    op->erase();
  }
}

/// Sorts the ops of @main by part, each after the ops that it depends on.
void Cutter::sort() {
  SmallVector<Operation *> order;
  for (Operation &op : block.without_terminator())
    order.push_back(&op);
  auto partOf = [&](Operation *op) { return parts.contains(op) ? parts.lookup(op) : kNone; };
  llvm::stable_sort(order, [&](Operation *a, Operation *b) { return partOf(a) < partOf(b); });
  DenseSet<Operation *> placed;
  std::function<void(Operation *)> place = [&](Operation *op) {
    if (!placed.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      if (Operation *definer = operand.getDefiningOp())
        place(definer);
    op->moveBefore(block.getTerminator());
  };
  llvm::for_each(order, place);
}

LogicalResult Cutter::run(ArrayRef<std::string> until) {
  findFlows();
  nameLayers();
  names = namedOps(module);
  if (failed(match(until)))
    return failure();
  SmallVector<CallOp> cutCalls;
  for (CallOp call : block.getOps<CallOp>()) {
    bool through = false;
    for (const std::vector<NamedOp> &found : matches) {
      SmallVector<Operation *> here;
      for (const NamedOp &named : found)
        if (named.call == call)
          here.push_back(named.op);
      through |= !here.empty() && goesThrough(call, here);
    }
    if (through)
      cutCalls.push_back(call);
  }
  for (CallOp call : cutCalls)
    inlineCall(call);
  findFlows();
  if (failed(findParts(until)))
    return failure();
  findGroups();
  std::map<Group, SmallVector<Operation *>> groups;
  for (Operation &op : block.without_terminator()) {
    if (!parts.contains(&op) || isCall(&op))
      continue;
    int64_t layer = layerOf(&op), part = parts.lookup(&op);
    if (layer != kNone)
      groups[{layer, part, 0}].push_back(&op);
    else if (outlined.contains({part, depths.lookup(&op)}))
      groups[{kNone, part, depths.lookup(&op)}].push_back(&op);
  }
  for (const auto &[group, ops] : groups)
    outline(group, ops);
  sort();
  Builder builder(module.getContext());
  for (CallOp call : block.getOps<CallOp>())
    call->setAttr(KerfDialect::kPartAttr, builder.getI64IntegerAttr(parts.lookup(call)));
  pruneCalls(module);
  return success();
}

struct CutStages : impl::CutStagesBase<CutStages> {
  using CutStagesBase::CutStagesBase;
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    std::vector<std::string> patterns(until.begin(), until.end());
    if (!main || patterns.empty())
      return;
    for (CallOp call : llvm::make_early_inc_range(main.front().getOps<CallOp>()))
      if (failed(splitRepeat(call, main)))
        return signalPassFailure();
    if (failed(Cutter(getOperation(), main).run(patterns)))
      signalPassFailure();
  }
};

} // namespace
} // namespace kerf
