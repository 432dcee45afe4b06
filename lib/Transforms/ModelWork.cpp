// SPDX-License-Identifier: Apache-2.0
#include "ModelBridge.h"

#include "kerf/Transforms/Work.h"
#include <algorithm>
#include <fmt/format.h>

namespace kerf {

namespace bridge {

const Sharding &Bridge::shardingOf(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return shardingOfArgument.lookup(argument)->results[0];
  auto result = cast<OpResult>(value);
  if (auto call = dyn_cast<CallOp>(result.getOwner())) {
    auto callee = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
    return shardingOf(callee.front().getTerminator()->getOperand(result.getResultNumber()));
  }
  return shardingOfOp.lookup(result.getOwner())->results[result.getResultNumber()];
}

/// Returns whether the op is a product, or the sum of gradients that several products compute for their common input.
static bool isProducts(Operation *op) {
  if (isa_and_nonnull<AddOp>(op) && isBackward(op))
    return llvm::all_of(op->getOperands(), [](Value value) { return isProducts(value.getDefiningOp()); });
  return kernelClassOf(op) == KernelClass::Product;
}

std::vector<Sharding> &Bridge::shardingsOf(Value value) {
  std::vector<Sharding> &made = availableShardings[value];
  if (!made.empty())
    return made;
  made.push_back(shardingOf(value));
  // The result of a layer is also available in shardings that the layer itself brought it into and that take
  // no more memory.
  auto call = value.getDefiningOp<CallOp>();
  if (!call || !made.front().partial.empty())
    return made;
  auto callee = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
  auto inner =
      availableShardings.find(callee.front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()));
  auto size = [&](const Sharding &form) { return elementsOf(localShape(shapeOf(value), form)); };
  if (inner != availableShardings.end())
    for (const Sharding &form : inner->second)
      if (size(form) <= size(made.front()))
        made.push_back(form);
  return made;
}

/// Returns the modes under which a collective of an op's result runs again, where a plan decides about ops. Pointwise
/// and selective recomputation communicate with nobody, unless the plan recomputes the op in any case.
static RecomputeModes modesOfCollective(RecomputeModes op) {
  return op == RecomputeModes::Never || contains(op, Recompute::None) ? op : RecomputeModes::Others;
}

void Bridge::addReshard(Value value, const Sharding &wanted, PassWork *pass, PassKind kind, bool byProduct,
                        bool eightBitFactor) {
  std::vector<Sharding> &made = shardingsOf(value);
  Sharding target = canonical(wanted);
  for (const Sharding &form : made)
    if (canonical(form) == target)
      return;
  Shape shape = shapeOf(value);
  bool inEightBits = eightBitFactor && made.front().partial.empty(); // a sum is taken in the type of the value
  double bytes = inEightBits ? kEightBitBytes : elementBytes(value, types);
  StepPrice price = stepPriceFor(collectives);
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
    if (!record) // a slice, which moves no data between ranks
      continue;
    bool reduces = record->pricedAs == Collective::AllReduce || record->pricedAs == Collective::ReduceScatter;
    std::optional<std::vector<AxisRef>> axes = planAxes(step.axes);
    if (!axes) // a sum over microbatches, not over ranks
      continue;
    PassCollective collective;
    collective.kind = record->pricedAs;
    collective.axes = std::move(*axes);
    collective.bytes = record->pricedByResult ? out : in;
    collective.name = fmt::format("{} of {}", toString(collective.kind), nodeName(value.getLoc()));
    if (auto made = recomputedByOf.find(value.getDefiningOp()); made != recomputedByOf.end())
      collective.recomputedBy = modesOfCollective(made->second);
    // The gradients of weights need no sum of an input's gradient, and input gradients no gather of a saved activation.
    collective.independent = kind == PassKind::InputGradient    ? reduces && isSum
                             : kind == PassKind::WeightGradient ? !reduces && isa<BlockArgument>(value)
                                                                : false;
    collective.overlapsProduct = (reduces && isa_and_nonnull<DotGeneralOp>(value.getDefiningOp())) ||
                                 (byProduct && step.kind == ReshardStepKind::AllGather);
    collective.exchangesTokens =
        collective.kind == Collective::AllToAll &&
        llvm::any_of(collective.axes, [](const AxisRef &axis) { return axis.axis == planAxis("expert"); });
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
  std::optional<std::vector<AxisRef>> axes = planAxes(shardingOfOp.lookup(attention)->operands[1].dims[1].axes);
  return axes.value_or(std::vector<AxisRef>());
}

double Bridge::keyValueBytes(Operation *attention) const {
  double bytes = 0;
  for (unsigned i : {1, 2}) {
    Value value = attention->getOperand(i);
    bytes += static_cast<double>(elementsOf(localShape(shapeOf(value), shardingOfOp.lookup(attention)->operands[i]))) *
             elementBytes(value, types);
  }
  return bytes;
}

double Bridge::ringBytes(AttentionOp attention) const {
  std::vector<AxisRef> ring = ringOf(attention);
  if (ring.empty())
    return 0;
  const OpSharding &sharding = *shardingOfOp.lookup(attention);
  Shape query = localShape(shapeOf(attention.getQuery()), sharding.operands[0]),
        key = localShape(shapeOf(attention.getKey()), sharding.operands[1]);
  double block = keyValueBytes(attention);
  if (options.ring.repeatsHeads)
    block *= static_cast<double>(query[2]) / static_cast<double>(key[2]);
  double element = elementBytes(attention.getQuery(), types);
  return options.ring.bytes(static_cast<double>(shardCount(ring)), block,
                            static_cast<double>(elementsOf(query)) * element, element);
}

/// Each of n ranks sends the block that it works on to its neighbour n - 1 times (Liu et al. 2023). In the backward
/// pass, the gradients of the block are sent along with it.
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
  auto pinned = recomputedByOf.find(attention);
  // The same mode as that of the attention kernel.
  collective.recomputedBy = pinned == recomputedByOf.end() ? types.coreModes() : pinned->second;
  collective.hops = shardCount(collective.axes) - 1;
  collective.overlapsAttention = true;
  pass.collectives.push_back(std::move(collective));
}

void Bridge::addMagnitudes(Operation *product, PassWork &pass) {
  for (unsigned i = 0; i < 2; ++i) {
    Value factor = product->getOperand(i);
    if (!eightBit.quantized.contains(factor) || !agreed.insert(factor).second)
      continue;
    PassCollective collective;
    for (const DimSharding &dim : shardingOfOp.lookup(product)->operands[i].dims)
      for (const AxisRef &axis : dim.axes)
        if (std::optional<std::vector<AxisRef>> its = planAxes(axis))
          collective.axes.insert(collective.axes.end(), its->begin(), its->end());
    if (collective.axes.empty())
      continue;
    std::sort(collective.axes.begin(), collective.axes.end());
    collective.axes = mergeParts(collective.axes);
    collective.bytes = types.bytes;
    collective.name = fmt::format("magnitude of a factor of {}", nodeName(product->getLoc()));
    if (auto made = recomputedByOf.find(product); made != recomputedByOf.end())
      collective.recomputedBy = made->second;
    pass.collectives.push_back(std::move(collective));
  }
}

void Bridge::addOperandReshards(Operation *op, PassWork &pass, PassKind kind) {
  const OpSharding &sharding = *shardingOfOp.lookup(op);
  for (auto [i, value] : llvm::enumerate(op->getOperands()))
    // Partial sums of a parameter's gradient are summed once for each step, not once for each microbatch.
    addReshard(value, sharding.operands[i], forWeights.contains(value.getDefiningOp()) ? nullptr : &pass, kind,
               isa<DotGeneralOp>(op), types.hasEightBitFactors(op));
  if (types.hasEightBitFactors(op))
    addMagnitudes(op, pass);
  if (kernelClassOf(op) == KernelClass::Attention)
    addRing(op, pass);
  // Where the vocabulary is sharded, the loss combines its maximum, its sum and the label's logit over the ranks.
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
                    PassKind kind) {
  if (kind == PassKind::WeightGradient)
    forWeights.insert(ops.begin(), ops.end());
  kernels.beginPass();
  for (Operation *op : ops) {
    addOperandReshards(op, pass, kind);
    if (weights && op->hasTrait<ComputesWeightGradients>())
      kernels.addNormBackward(op, *weights);
    else
      kernels.add(op);
  }
  kernels.endPass(pass);
}

void Bridge::addDropout(Operation *op, RecomputeModes modes, Segment &segment) const {
  if (!op->hasAttr(KerfDialect::kDropoutAttr) || isa<AttentionOp>(op))
    return;
  double elements = static_cast<double>(elementsOf(localOf(op->getResult(0))));
  segment.saved.push_back({"mask of " + nodeName(op->getLoc()), kMaskBytes * elements, modes, false});
  KernelWork kernel;
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
  // Backward calls come in the reverse order of the layers.
  size_t next = forward.size();
  for (CallOp call : main.getOps<CallOp>()) {
    if (!isBackward(call))
      continue;
    while (next > 0 && forward[next - 1].getCallee().str() + "_backward" != call.getCallee().str())
      --next;
    if (next == 0)
      return Error{fmt::format("@{} belongs to no layer's forward pass; report this model, it is a bug of Kerf",
                               call.getCallee().str()),
                   ExitStatus::InternalCheck};
    size_t run = runOf[forward[--next]];
    runOf[call] = run;
    runs[run].backward = call; // the last assignment is the call for the run's first layer
    runs[run].layerBackward = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
  }
  for (Run &run : runs)
    if (!run.backward)
      return Error{fmt::format("@{} has a forward call but no backward call, because no parameter in it is trained; "
                               "train a parameter of it with <trainable>",
                               run.layer.getName().str())};
  return ok();
}

/// A forward op comes after all runs that it depends on; a backward op stands between the runs whose gradients it reads
/// and those that read its results.
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
  // An op whose results only later ops read is moved to these ops.
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
      if (!isBackward(&op) && !isa<CallOp>(op) && !isUpdate(&op) && level[&op] == l && shardingOfOp.contains(&op))
        ops.push_back(&op);
    addOps(kernels, ops, segment.forward, nullptr, PassKind::Forward);
    for (Operation *op : ops)
      addDropout(op, RecomputeModes::Others, segment);
    if (l == runs.size())
      break;
    for (auto [outer, inner] : llvm::zip(runs[l].first.getInputs(), runs[l].layer.getArguments()))
      addReshard(outer, shardingOf(inner), &segment.forward, PassKind::Forward);
  }
}

/// Splits backward ops into those on which a `wanted` use depends (`input`), and the others, which compute gradients of
/// parameters (`weight`).
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
      if (isBackward(&op) && !isa<CallOp>(op) && !isUpdate(&op) && level[&op] == l && shardingOfOp.contains(&op))
        ops.push_back(&op);
    split(ops, [](OpOperand &use) { return isa<CallOp>(use.getOwner()); }, input, weight);
    addOps(kernels, input, segment.inputGradient, &segment.weightGradient, PassKind::InputGradient);
    addOps(kernels, weight, segment.weightGradient, nullptr, PassKind::WeightGradient);
    llvm::SmallPtrSet<Operation *, 32> inputs(input.begin(), input.end());
    segment.pendingBytes = pendingBytes(weight, inputs, {});
    segment.workspaceBytes = workspaceBytes(ops, kernels);
    addMainActivations(l, segment, weight);
    if (l == 0)
      continue;
    // Reshards of the gradients that enter the run before this level. A value that a layer saved is resharded by the
    // layer itself.
    Run &run = runs[l - 1];
    ChainSegment &chainSegment = work.chain[2 * l - 1];
    for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments())) {
      Operation *from = outer.getDefiningOp();
      bool gradient = from && isBackward(from);
      if (gradient && isa<CallOp>(from)) // the gradient of a layer's input, which is the same for all layers
        continue;
      if (!savedShardings(run, outer, inner).empty())
        continue;
      addReshard(outer, shardingOf(inner), gradient ? &segment.inputGradient : &chainSegment.segment.weightGradient,
                 gradient ? PassKind::InputGradient : PassKind::WeightGradient);
    }
  }
}

/// Examples: heads after the all-to-alls of Ulysses, and products whose partial sums have been added up. The placement
/// itself may have another sharding at the border of the layer.
std::vector<Sharding> Bridge::savedShardings(Run &run, Value outer, Value inner) const {
  if (outer.getDefiningOp() != run.first.getOperation())
    return {};
  Value made = run.layer.front().getTerminator()->getOperand(cast<OpResult>(outer).getResultNumber());
  std::vector<Sharding> forms = availableShardings.lookup(made);
  if (forms.empty())
    forms.push_back(shardingOf(made));
  llvm::erase_if(forms, [&](const Sharding &form) {
    return !form.partial.empty() || elementsOf(localShape(shapeOf(made), form)) != elementsOf(localOf(inner));
  });
  return forms;
}

void Bridge::setSavedShardings(Run &run) {
  for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments()))
    if (std::vector<Sharding> forms = savedShardings(run, outer, inner); !forms.empty())
      availableShardings[inner] = std::move(forms);
}

/// Returns the module scopes of the run's layers, or nothing where a call that stands for several layers has no number.
/// The name of such a call is that of its first layer, and ends in the layer's number.
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

void Bridge::addLayer(Run &run, ChainSegment &chainSegment) {
  Segment &segment = chainSegment.segment;
  segment.name = run.layer.getName().str();
  segment.recomputable = true;
  std::vector<Operation *> forward, backward, input, weight;
  for (Operation &op : run.layer.front().without_terminator())
    forward.push_back(&op);
  for (Operation &op : run.layerBackward.front().without_terminator())
    backward.push_back(&op);
  KernelBuilder forwardKernels(types, localShapes(), cuts()), kernels(types, localShapes(), cuts());
  std::vector<SavedValue> all = savedValues(run);
  llvm::DenseSet<Value> recomputed = recomputedValues(all);
  findPointwiseOps(run, all);
  pinRecomputation(run, all, segment);
  forwardKernels.setRecomputedBy(recomputedByOf, pointwiseOps);
  forwardKernels.setRecomputedValues(recomputed);
  kernels.setRecomputedValues(recomputed);
  addOps(forwardKernels, forward, segment.forward, nullptr, PassKind::Forward);
  for (Operation *op : forward)
    addDropout(op, forwardKernels.modesOf(op), segment);
  setSavedShardings(run);
  split(
      backward,
      [&](OpOperand &use) {
        return use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
               !isParameterGradient(run.backward.getResult(use.getOperandNumber()));
      },
      input, weight);
  addOps(kernels, input, segment.inputGradient, &segment.weightGradient, PassKind::InputGradient);
  addOps(kernels, weight, segment.weightGradient, nullptr, PassKind::WeightGradient);
  // The layer's result is brought into the sharding in which the next layer reads it.
  Operation *last = run.layer.front().getTerminator();
  for (auto [i, outer] : llvm::enumerate(run.first.getInputs()))
    if (isStream(run, outer)) {
      Value stream = run.layer.getArgument(i);
      addReshard(last->getOperand(0), shardingOf(stream), &segment.forward, PassKind::Forward);
      segment.inputBytes = localBytes(stream);
      work.layerOutputLocalBytes = segment.inputBytes;
      work.layerOutputBytes = static_cast<double>(elementsOf(shapeOf(stream))) * types.bytes;
      for (size_t axis = 0; axis < options.axes.size(); ++axis)
        if (!options.axes[axis] || options.axes[axis]->axis != planAxis("model")) // microbatches; the sequence
          work.layerOutputBytes /= static_cast<double>(placement.mesh.axes[axis].size);
      break;
    }
  if (options.parts > 1) { // a piece of a layer receives more than the residual stream
    segment.inputBytes = 0;
    for (auto [outer, inner] : llvm::zip(run.first.getInputs(), run.layer.getArguments()))
      if (dependsOnTrained.contains(outer.getDefiningOp()))
        segment.inputBytes += localBytes(inner);
  }
  SmallVector<Value> gradients;
  for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments()))
    if (outer.getDefiningOp() && isBackward(outer.getDefiningOp()))
      gradients.push_back(inner);
  llvm::SmallPtrSet<Operation *, 32> inputs(input.begin(), input.end());
  segment.pendingBytes = pendingBytes(weight, inputs, gradients);
  segment.workspaceBytes = workspaceBytes(backward, kernels);
  for (Value gradient : gradients)
    segment.workspaceBytes += localBytes(gradient);
  for (auto attention : run.layer.getOps<AttentionOp>())
    segment.workspaceBytes += ringBytes(attention);
  if (!options.fusedAttention)
    for (auto attention : run.layer.getOps<AttentionOp>()) // the scores' gradient, before and after softmax
      segment.workspaceBytes += 2 * types.bytes * static_cast<double>(elementsOf(localOf(attention.getLse()))) *
                                static_cast<double>(shapeOf(attention.getKey())[1]);
  addLayerActivations(run, all, recomputed, segment, weight);
}

DenseMap<Operation *, int64_t> Bridge::partsOfOps() {
  DenseMap<Operation *, int64_t> parts;
  llvm::DenseSet<Operation *> leads;
  for (Operation &op : llvm::reverse(main.front().without_terminator()))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return isa<CallOp>(user) || leads.contains(user); }))
      leads.insert(&op);
  for (Operation &op : main.front().without_terminator()) {
    if (!dependsOnTrained.contains(&op))
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

void Bridge::findReceivedBytes() {
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

/// kerf-assign-tasks assigns the same ops to one stage only: forward ops that do not depend on inputs alone.
void Bridge::findTrained() {
  for (Operation &op : main.front().without_terminator()) {
    bool trained = isa<CallOp>(op);
    for (Value operand : op.getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      trained |= argument ? static_cast<bool>(main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
                          : dependsOnTrained.contains(operand.getDefiningOp());
    }
    if (trained && !isBackward(&op) && !isUpdate(&op))
      dependsOnTrained.insert(&op);
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
    ChainSegment &chainSegment = work.chain[2 * r + 1];
    chainSegment.layers = runs[r].count;
    if (std::vector<std::string> names = namesOf(runs[r]); static_cast<int64_t>(names.size()) == runs[r].count)
      chainSegment.names = std::move(names);
    auto same = std::find_if(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(r),
                             [&](const Run &other) { return other.layer == runs[r].layer; });
    if (same != runs.begin() + static_cast<ptrdiff_t>(r)) // pieces of a layer that is cut stand between the two runs
      chainSegment.segment = work.chain[2 * (same - runs.begin()) + 1].segment;
    else
      addLayer(runs[r], chainSegment);
  }
  forwardOfMain();
  backwardOfMain();
  addParameters();
  addTotals();
  if (options.parts > 1)
    findReceivedBytes();
  return std::move(work);
}

} // namespace bridge

Result<ModelWork> modelWork(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice,
                            const CollectiveModel &collectives, const WorkOptions &options) {
  return bridge::Bridge(module, placement, choice, collectives, options).run();
}

} // namespace kerf
