// SPDX-License-Identifier: Apache-2.0
#include "ModelBridge.h"

#include "kerf/Transforms/Work.h"
#include <algorithm>
#include <fmt/format.h>

namespace kerf {

namespace bridge {

/// How the value lies where it is made.
const Sharding &Bridge::lies(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return ofArgument.lookup(argument)->results[0];
  auto result = cast<OpResult>(value);
  if (auto call = dyn_cast<CallOp>(result.getOwner())) {
    auto callee = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
    return lies(callee.front().getTerminator()->getOperand(result.getResultNumber()));
  }
  return ofOp.lookup(result.getOwner())->results[result.getResultNumber()];
}

/// A product, or the gradients of several products' common input added up.
static bool isProducts(Operation *op) {
  if (isa_and_nonnull<AddOp>(op) && isBackward(op))
    return llvm::all_of(op->getOperands(), [](Value value) { return isProducts(value.getDefiningOp()); });
  return kernelClassOf(op) == KernelClass::Product;
}

std::vector<Sharding> &Bridge::formsOf(Value value) {
  std::vector<Sharding> &made = versions[value];
  if (!made.empty())
    return made;
  made.push_back(lies(value));
  // What a layer returns is kept in a form that the layer itself brought it into, where that takes no more memory.
  auto call = value.getDefiningOp<CallOp>();
  if (!call || !made.front().partial.empty())
    return made;
  auto callee = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
  auto inner = versions.find(callee.front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()));
  auto size = [&](const Sharding &form) { return elementsOf(localShape(shapeOf(value), form)); };
  if (inner != versions.end())
    for (const Sharding &form : inner->second)
      if (size(form) <= size(made.front()))
        made.push_back(form);
  return made;
}

/// The collectives that bring the value to where it is wanted, from wherever it is cheapest. A form made once is there
/// for all.
void Bridge::need(Value value, const Sharding &wanted, PassWork *pass, bool independent, bool byProduct) {
  std::vector<Sharding> &made = formsOf(value);
  Sharding target = canonical(wanted);
  for (const Sharding &form : made)
    if (canonical(form) == target)
      return;
  Shape shape = shapeOf(value);
  double bytes = elementBytes(value, types);
  StepPrice price = priceOn(collectives);
  std::optional<std::vector<ReshardStep>> best;
  double least = 0;
  Sharding start;
  for (const Sharding &form : made) {
    auto steps =
        canReshard(form, wanted)
            ? planReshard(placement.mesh, shape, std::max<int64_t>(1, static_cast<int64_t>(bytes)), form, wanted, price)
            : Result<std::vector<ReshardStep>>(Error{""});
    if (!steps)
      continue;
    double seconds =
        secondsToReshard(collectives, shape, std::max<int64_t>(1, static_cast<int64_t>(bytes)), form, wanted);
    if (!best || seconds < least) {
      best = std::move(*steps);
      least = seconds;
      start = form;
    }
  }
  made.push_back(wanted);
  if (!best || !pass)
    return;
  bool isSum = isProducts(value.getDefiningOp());
  Sharding before = start;
  for (const ReshardStep &step : *best) {
    double in = static_cast<double>(elementsOf(localShape(shape, before))) * bytes,
           out = static_cast<double>(elementsOf(localShape(shape, step.after))) * bytes;
    before = step.after;
    const CollectiveOp *record = collectiveOf(step.kind);
    if (!record) // a slice, which moves nothing between ranks
      continue;
    bool reduces = record->price == Collective::AllReduce || record->price == Collective::ReduceScatter;
    std::optional<std::vector<AxisRef>> axes = planAxes(step.axes);
    if (!axes) // over microbatches, not ranks
      continue;
    PassCollective collective;
    collective.kind = record->price;
    collective.axes = std::move(*axes);
    collective.bytes = record->pricedByResult ? out : in;
    collective.name = fmt::format("{} of {}", toString(collective.kind), nodeName(value.getLoc()));
    if (auto made = runAgain.find(value.getDefiningOp()); made != runAgain.end())
      collective.again = made->second;
    collective.independent = independent && (reduces ? isSum : isa<BlockArgument>(value));
    collective.besideProduct = (reduces && isa_and_nonnull<DotGeneralOp>(value.getDefiningOp())) ||
                               (byProduct && step.kind == ReshardStepKind::AllGather);
    pass->collectives.push_back(std::move(collective));
  }
}

std::optional<std::vector<AxisRef>> Bridge::planAxes(ArrayRef<AxisRef> axes) const {
  std::vector<AxisRef> real;
  for (const AxisRef &axis : axes) {
    const std::optional<AxisRef> &its = options.axes[axis.axis];
    if (!its)
      return std::nullopt;
    real.push_back({its->axis, its->before * axis.before, axis.size});
  }
  std::sort(real.begin(), real.end());
  return mergeParts(real);
}

CutsOf Bridge::cuts() const {
  return [this](Operation *op) {
    auto [rule, strategy] = cutsOf.lookup(op);
    if (!rule)
      return std::string();
    Strategy ofRanks = *strategy;
    for (size_t axis = 0; axis < options.axes.size(); ++axis)
      if (!options.axes[axis]) // microbatches
        ofRanks.factorOfAxis[axis] = -1;
    return strategyText(placement.mesh, *rule, ofRanks);
  };
}

std::vector<AxisRef> Bridge::ringOf(Operation *attention) const {
  std::optional<std::vector<AxisRef>> axes = planAxes(ofOp.lookup(attention)->operands[1].dims[1].axes);
  return axes.value_or(std::vector<AxisRef>());
}

/// Of one rank's block.
double Bridge::keyValueBytes(Operation *attention) const {
  double bytes = 0;
  for (unsigned i : {1, 2}) {
    Value value = attention->getOperand(i);
    bytes += static_cast<double>(elementsOf(localShape(shapeOf(value), ofOp.lookup(attention)->operands[i]))) *
             elementBytes(value, types);
  }
  return bytes;
}

/// Liu et al. 2023: each of n ranks passes n - 1 times the block that it works on to its neighbour. In the backward the
/// block's gradients travel with it.
void Bridge::addRing(Operation *attention, PassWork &pass) const {
  PassCollective collective;
  collective.axes = ringOf(attention);
  if (collective.axes.empty())
    return;
  bool backward = isa<AttentionBackwardOp>(attention);
  collective.name = fmt::format("keys and values{} round the ring of {}", backward ? " and their gradients" : "",
                                nodeName(attention->getLoc()));
  collective.kind = Collective::Permute;
  collective.bytes = keyValueBytes(attention) * (backward ? 2 : 1);
  auto pinned = runAgain.find(attention);
  collective.again = pinned == runAgain.end() ? RunAgain::Selective : pinned->second; // as the kernel that it feeds
  collective.hops = ways(collective.axes) - 1;
  collective.besideAttention = true;
  pass.collectives.push_back(std::move(collective));
}

void Bridge::needOperands(Operation *op, PassWork &pass, bool inBackward) {
  const OpSharding &sharding = *ofOp.lookup(op);
  for (auto [i, value] : llvm::enumerate(op->getOperands()))
    // What is left of a parameter's gradient to be summed is summed once a step, not here.
    need(value, sharding.operands[i], forWeights.contains(value.getDefiningOp()) ? nullptr : &pass, inBackward,
         isa<DotGeneralOp>(op));
  if (kernelClassOf(op) == KernelClass::Attention)
    addRing(op, pass);
  // A loss over a cut vocabulary: its maximum, its sum and the picked logit are summed over the ranks.
  if (!isa<CrossEntropyOp>(op))
    return;
  PassCollective collective;
  collective.axes = planAxes(sharding.operands[0].dims.back().axes).value_or(std::vector<AxisRef>());
  if (collective.axes.empty())
    return;
  Shape rows = localShape(shapeOf(op->getResult(0)), sharding.results[0]);
  collective.bytes = static_cast<double>(elementsOf(rows)) * elementBytes(op->getResult(0), types);
  for (const char *what : {"largest logit", "sum", "picked logit"}) {
    collective.name = fmt::format("{} of the loss", what);
    pass.collectives.push_back(collective);
  }
}

void Bridge::addOps(KernelBuilder &kernels, const std::vector<Operation *> &ops, PassWork &pass, PassWork *weights,
                    bool inBackward) {
  if (inBackward && !weights)
    forWeights.insert(ops.begin(), ops.end());
  kernels.beginPass();
  for (Operation *op : ops) {
    needOperands(op, pass, inBackward);
    if (weights && op->hasTrait<MakesWeightGradients>())
      kernels.addNormBackward(op, *weights);
    else
      kernels.add(op);
  }
  kernels.endPass(pass);
}

/// What dropping elements adds to a segment: the mask, and its product with the gradient.
void Bridge::dropouts(Operation *op, Segment &segment) const {
  if (!op->hasAttr(KerfDialect::kDropoutAttr) || isa<AttentionOp>(op))
    return;
  double elements = static_cast<double>(elementsOf(localOf(op->getResult(0))));
  segment.saved.push_back({"mask of " + nodeName(op->getLoc()), kMaskBytes * elements,
                           runAgain.empty() ? RunAgain::Full : runAgain.lookup(op), false});
  Kernel kernel;
  kernel.name = nodeName(op->getLoc()) + " dropout@backward";
  kernel.cuts = cuts()(op);
  kernel.work.kernelClass = KernelClass::Pointwise;
  kernel.work.bytes = (2 * types.bytes + kMaskBytes) * elements;
  kernel.work.flops = elements;
  segment.inputGradient.kernels.push_back(kernel);
}

Status Bridge::findRuns() {
  std::vector<CallOp> forward;
  for (CallOp call : main.getOps<CallOp>()) {
    auto callee = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
    auto repeat = call->getAttrOfType<IntegerAttr>(KerfDialect::kRepeatAttr);
    int64_t count = repeat ? repeat.getInt() : 1;
    if (isBackward(call))
      continue;
    if (runs.empty() || runs.back().layer != callee)
      runs.push_back({call, nullptr, callee, nullptr, {}, 0});
    runOf[call] = runs.size() - 1;
    runs.back().calls.push_back(call);
    runs.back().count += count;
    forward.push_back(call);
  }
  // Gradients come in the reverse order of layers.
  size_t next = forward.size();
  for (CallOp call : main.getOps<CallOp>()) {
    if (!isBackward(call))
      continue;
    while (next > 0 && forward[next - 1].getCallee().str() + "_backward" != call.getCallee().str())
      --next;
    if (next == 0)
      return Error{fmt::format("@{} belongs to no layer's forward pass", call.getCallee().str()),
                   ExitStatus::InternalCheck};
    size_t run = runOf[forward[--next]];
    runOf[call] = run;
    runs[run].backward = call; // at last of its first call
    runs[run].layerBackward = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
  }
  for (Run &run : runs)
    if (!run.backward)
      return Error{
          fmt::format("@{} is called and not differentiated: nothing in it is trained", run.layer.getName().str())};
  return ok();
}

/// Forward ops after as many runs as they need; backward ops between the runs whose gradients they need and give.
void Bridge::placeMainOps() {
  for (Operation &op : main.front().without_terminator()) {
    bool back = isBackward(&op);
    size_t its = back ? runs.size() : 0;
    for (Value operand : op.getOperands())
      if (Operation *from = operand.getDefiningOp()) {
        auto call = dyn_cast<CallOp>(from);
        if (back && isBackward(from))
          its = std::min(its, call ? runOf.lookup(call) : level.lookup(from));
        if (!back)
          its = std::max(its, call ? runOf.lookup(call) + 1 : level.lookup(from));
      }
    level[&op] = its;
  }
  // What only later ops read is computed with them.
  for (Operation &op : llvm::reverse(main.front().without_terminator())) {
    if (isBackward(&op) || isa<CallOp>(op) || op.use_empty())
      continue;
    size_t latest = runs.size();
    for (Operation *user : op.getUsers()) {
      if (isBackward(user))
        continue;
      auto call = dyn_cast<CallOp>(user);
      latest = std::min(latest, call                                      ? runOf.lookup(call)
                                : user->hasTrait<OpTrait::IsTerminator>() ? runs.size()
                                                                          : level.lookup(user));
    }
    level[&op] = std::max(level[&op], latest);
  }
}

void Bridge::forwardOfMain() {
  KernelBuilder kernels(types, localShapes(), cuts());
  for (size_t l = 0; l <= runs.size(); ++l) {
    std::vector<Operation *> ops;
    Segment &segment = work.chain[2 * l].segment;
    for (Operation &op : main.front().without_terminator())
      if (!isBackward(&op) && !isa<CallOp>(op) && !isUpdate(&op) && level[&op] == l && ofOp.contains(&op))
        ops.push_back(&op);
    addOps(kernels, ops, segment.forward, nullptr, false);
    for (Operation *op : ops)
      dropouts(op, segment);
    if (l == runs.size())
      break;
    for (auto [outer, inner] : llvm::zip(runs[l].first.getInputs(), runs[l].layer.getArguments()))
      need(outer, lies(inner), &segment.forward, false);
  }
}

/// Splits backward ops: those that the result `wanted` needs, and the rest (of parameters' gradients).
static void split(ArrayRef<Operation *> ops, llvm::function_ref<bool(OpOperand &)> wanted,
                  std::vector<Operation *> &input, std::vector<Operation *> &weight) {
  llvm::SmallPtrSet<Operation *, 32> needed;
  for (Operation *op : llvm::reverse(ops)) {
    bool isNeeded = false;
    for (OpOperand &use : op->getUses())
      isNeeded |= needed.contains(use.getOwner()) || wanted(use);
    if (isNeeded)
      needed.insert(op);
  }
  for (Operation *op : ops)
    (needed.contains(op) ? input : weight).push_back(op);
}

void Bridge::backwardOfMain() {
  KernelBuilder kernels(types, localShapes(), cuts());
  for (size_t l = runs.size() + 1; l-- > 0;) {
    Segment &segment = work.chain[2 * l].segment;
    std::vector<Operation *> ops, input, weight;
    for (Operation &op : main.front().without_terminator())
      if (isBackward(&op) && !isa<CallOp>(op) && !isUpdate(&op) && level[&op] == l && ofOp.contains(&op))
        ops.push_back(&op);
    split(ops, [](OpOperand &use) { return isa<CallOp>(use.getOwner()); }, input, weight);
    addOps(kernels, input, segment.inputGradient, &segment.weightGradient, true);
    addOps(kernels, weight, segment.weightGradient, nullptr, true);
    llvm::SmallPtrSet<Operation *, 32> inputs(input.begin(), input.end());
    segment.pendingBytes = pending(weight, inputs, {});
    segment.workspaceBytes = workspace(ops, kernels);
    savedOfMain(l, segment, weight);
    if (l == 0)
      continue;
    // Gradients on their way into the layers before; what layers saved is brought into place by themselves.
    Run &run = runs[l - 1];
    ChainLink &link = work.chain[2 * l - 1];
    for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments())) {
      Operation *from = outer.getDefiningOp();
      bool gradient = from && isBackward(from);
      if (gradient && isa<CallOp>(from)) // of a layer after this one: alike for all layers
        continue;
      if (!keptForms(run, outer, inner).empty())
        continue;
      need(outer, lies(inner), gradient ? &segment.inputGradient : &link.segment.weightGradient, true);
    }
  }
}

/// What a layer leaves for its backward is kept as the forward made it or in any form of that size that it brought it
/// into (heads after the all-to-alls of Ulysses, sums of what products left in parts); the placement may see it lie
/// otherwise between the two. Nothing where it has to be brought there.
std::vector<Sharding> Bridge::keptForms(Run &run, Value outer, Value inner) const {
  if (outer.getDefiningOp() != run.first.getOperation())
    return {};
  Value made = run.layer.front().getTerminator()->getOperand(cast<OpResult>(outer).getResultNumber());
  std::vector<Sharding> forms = versions.lookup(made);
  if (forms.empty())
    forms.push_back(lies(made));
  llvm::erase_if(forms, [&](const Sharding &form) {
    return !form.partial.empty() || elementsOf(localShape(shapeOf(made), form)) != elementsOf(localOf(inner));
  });
  return forms;
}

void Bridge::keepForms(Run &run) {
  for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments()))
    if (std::vector<Sharding> forms = keptForms(run, outer, inner); !forms.empty())
      versions[inner] = std::move(forms);
}

/// Modules that the run's layers are; a call that stands for several has the first one's name, which ends with its
/// number.
static std::vector<std::string> namesOf(Run &run) {
  std::vector<std::string> names;
  for (CallOp call : run.calls) {
    std::string first = nodeName(call.getLoc());
    auto repeat = call->getAttrOfType<IntegerAttr>(KerfDialect::kRepeatAttr);
    size_t digits = first.find_last_not_of("0123456789") + 1;
    if (!repeat || repeat.getInt() == 1) {
      names.push_back(first);
      continue;
    }
    if (digits == first.size())
      return {};
    int64_t number = std::stoll(first.substr(digits));
    for (int64_t i = 0; i < repeat.getInt(); ++i)
      names.push_back(first.substr(0, digits) + std::to_string(number + i));
  }
  return names;
}

void Bridge::layer(Run &run, ChainLink &link) {
  Segment &segment = link.segment;
  segment.name = run.layer.getName().str();
  segment.recomputable = true;
  std::vector<Operation *> forward, backward, input, weight;
  for (Operation &op : run.layer.front().without_terminator())
    forward.push_back(&op);
  for (Operation &op : run.layerBackward.front().without_terminator())
    backward.push_back(&op);
  KernelBuilder forwardKernels(types, localShapes(), cuts()), kernels(types, localShapes(), cuts());
  std::vector<Handed> all = handed(run);
  llvm::DenseSet<Value> again = madeAgain(all);
  pinRecomputation(run, all, segment);
  forwardKernels.setRunAgain(runAgain);
  forwardKernels.setMadeAgain(again);
  kernels.setMadeAgain(again);
  addOps(forwardKernels, forward, segment.forward, nullptr, false);
  for (Operation *op : forward)
    dropouts(op, segment);
  keepForms(run);
  split(
      backward,
      [&](OpOperand &use) {
        return use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
               !isParameterGradient(run.backward.getResult(use.getOperandNumber()));
      },
      input, weight);
  addOps(kernels, input, segment.inputGradient, &segment.weightGradient, true);
  addOps(kernels, weight, segment.weightGradient, nullptr, true);
  // What leaves the layer lies as the next one takes it.
  Operation *last = run.layer.front().getTerminator();
  for (auto [i, outer] : llvm::enumerate(run.first.getInputs()))
    if (outer.getType() == run.first.getResult(0).getType() && !isa<BlockArgument>(outer)) {
      Value stream = run.layer.getArgument(i);
      need(last->getOperand(0), lies(stream), &segment.forward, false);
      segment.inputBytes = localBytes(stream);
      work.streamLocalBytes = segment.inputBytes;
      work.streamBytes = static_cast<double>(elementsOf(shapeOf(stream))) * types.bytes;
      for (size_t axis = 0; axis < options.axes.size(); ++axis)
        if (!options.axes[axis] || options.axes[axis]->axis != planAxis("model")) // microbatches; the sequence
          work.streamBytes /= static_cast<double>(placement.mesh.axes[axis].size);
      break;
    }
  if (options.parts > 1) { // pieces of layers get more than the stream
    segment.inputBytes = 0;
    for (auto [outer, inner] : llvm::zip(run.first.getInputs(), run.layer.getArguments()))
      if (ofTrained.contains(outer.getDefiningOp()))
        segment.inputBytes += localBytes(inner);
  }
  SmallVector<Value> gradients;
  for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments()))
    if (outer.getDefiningOp() && isBackward(outer.getDefiningOp()))
      gradients.push_back(inner);
  llvm::SmallPtrSet<Operation *, 32> inputs(input.begin(), input.end());
  segment.pendingBytes = pending(weight, inputs, gradients);
  segment.workspaceBytes = workspace(backward, kernels);
  for (Value gradient : gradients)
    segment.workspaceBytes += localBytes(gradient);
  for (auto attention : run.layer.getOps<AttentionOp>()) // blocks in use and blocks that arrive, and their gradients
    if (!ringOf(attention).empty())
      segment.workspaceBytes += kRingBuffers * keyValueBytes(attention);
  if (!options.fusedAttention)
    for (auto attention : run.layer.getOps<AttentionOp>()) // the scores' gradient, before and after softmax
      segment.workspaceBytes += 2 * types.bytes * static_cast<double>(elementsOf(localOf(attention.getLse()))) *
                                static_cast<double>(shapeOf(attention.getKey())[1]);
  savedOfLayer(run, all, again, segment, weight);
}

/// As kerf-assign-tasks finds them, of calls and forward ops that depend on what is trained.
DenseMap<Operation *, int64_t> Bridge::partsOfOps() {
  DenseMap<Operation *, int64_t> parts;
  llvm::DenseSet<Operation *> leads;
  for (Operation &op : llvm::reverse(main.front().without_terminator()))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return isa<CallOp>(user) || leads.contains(user); }))
      leads.insert(&op);
  for (Operation &op : main.front().without_terminator()) {
    if (!ofTrained.contains(&op))
      continue;
    int64_t before = 0;
    for (Value operand : op.getOperands())
      if (auto found = parts.find(operand.getDefiningOp()); found != parts.end())
        before = std::max(before, found->second);
    auto given = op.getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr);
    parts[&op] = given ? given.getInt() : leads.contains(&op) ? before : options.parts - 1;
  }
  return parts;
}

/// A value is sent once to each part that needs it.
void Bridge::received() {
  DenseMap<Operation *, int64_t> parts = partsOfOps();
  work.receivedBytes.assign(static_cast<size_t>(options.parts), 0);
  llvm::DenseSet<std::pair<Value, int64_t>> sent;
  for (Operation &op : main.front().without_terminator())
    if (auto to = parts.find(&op); to != parts.end())
      for (Value operand : op.getOperands()) {
        auto from = parts.find(operand.getDefiningOp());
        if (from != parts.end() && from->second < to->second && sent.insert({operand, to->second}).second)
          work.receivedBytes[static_cast<size_t>(to->second)] += localBytes(operand);
      }
}

/// Like what kerf-assign-tasks lets a stage have: it is forward, and not made of inputs alone.
void Bridge::findTrained() {
  for (Operation &op : main.front().without_terminator()) {
    bool trained = isa<CallOp>(op);
    for (Value operand : op.getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      trained |= argument ? static_cast<bool>(main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
                          : ofTrained.contains(operand.getDefiningOp());
    }
    if (trained && !isBackward(&op) && !isUpdate(&op))
      ofTrained.insert(&op);
  }
}

Result<ModelWork> Bridge::run() {
  if (Status status = findRuns(); !status)
    return status.error();
  findTrained();
  work.chain.resize(2 * runs.size() + 1);
  placeMainOps();
  for (size_t l = 0; l <= runs.size(); ++l)
    work.chain[2 * l].segment.name = l == runs.size() ? (runs.empty() ? "model" : "head")
                                     : l == 0         ? "embedding"
                                                      : "between";
  for (size_t r = 0; r < runs.size(); ++r) {
    ChainLink &link = work.chain[2 * r + 1];
    link.layers = runs[r].count;
    if (std::vector<std::string> names = namesOf(runs[r]); static_cast<int64_t>(names.size()) == runs[r].count)
      link.names = std::move(names);
    auto same = std::find_if(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(r),
                             [&](const Run &other) { return other.layer == runs[r].layer; });
    if (same != runs.begin() + static_cast<ptrdiff_t>(r)) // its layers are cut off by pieces of one between them
      link.segment = work.chain[2 * (same - runs.begin()) + 1].segment;
    else
      layer(runs[r], link);
  }
  forwardOfMain();
  backwardOfMain();
  parameters();
  totals();
  if (options.parts > 1)
    received();
  return std::move(work);
}

} // namespace bridge

Result<ModelWork> modelWork(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice,
                            const CollectiveModel &collectives, const WorkOptions &options) {
  return bridge::Bridge(module, placement, choice, collectives, options).run();
}

} // namespace kerf
