// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/ModelWork.h"

#include "StepKernels.h"
#include "kerf/Package/Package.h"
#include "kerf/Transforms/Work.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

int64_t ModelWork::layers() const {
  int64_t count = 0;
  for (const ChainLink &link : chain)
    count += link.layers;
  return count;
}

namespace {

constexpr double kMaskBytes = 1;
constexpr double kForwardAndBackward = 3; // products of the backward: twice those of the forward

bool isUpdate(Operation *op) { return isa<SyncGradientOp, SgdOp, AdamwOp>(op); }
bool isBackward(Operation *op) { return op->hasAttr(KerfDialect::kBackwardAttr); }

/// Only the optimizer reads it: the gradient of a parameter.
bool isParameterGradient(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [](Operation *user) {
    return isUpdate(user) || (isa<AddOp>(user) && isParameterGradient(user->getResult(0)));
  });
}

/// The value in memory that a view shows.
Value behindViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// A run of calls of one layer, forward and backward.
struct Run {
  CallOp first, last, backward; // backward: of `first`, or null
  func::FuncOp layer, layerBackward;
  int64_t count = 0;
};

class Bridge {
public:
  Bridge(ModuleOp module, const Placement &placement, const std::vector<int> &choice,
         const CollectiveModel &collectives, const WorkOptions &options)
      : symbols(module), placement(placement), collectives(collectives), options(options),
        main(symbols.lookup<func::FuncOp>(KerfDialect::kEntryName)) {
    types.bytes = options.dtype == "f64" ? 8 : options.dtype == "f32" ? 4 : 2;
    types.product = options.dtype;
    types.other = options.dtype == "f8" ? "bf16" : options.dtype;
    types.fusedAttention = options.fusedAttention;
    for (size_t i = 0; i < placement.nodes.size(); ++i) {
      const PlacementNode &node = placement.nodes[i];
      const OpSharding &sharding = node.shardings[choice[i]];
      if (node.op)
        ofOp[node.op] = &sharding;
      else if (node.argument)
        ofArgument[node.argument] = &sharding;
    }
  }

  Result<ModelWork> run();

private:
  Status findRuns();
  void placeMainOps();
  void forwardOfMain();
  void backwardOfMain();
  void layer(Run &run, ChainLink &link);
  struct Handed {
    Value made, inner; // in the layer, and as its backward knows it
  };
  std::vector<Handed> handed(Run &run);
  llvm::DenseSet<Value> madeAgain(const std::vector<Handed> &all) const;
  void savedOfLayer(Run &run, const std::vector<Handed> &all, const llvm::DenseSet<Value> &again, Segment &segment,
                    const std::vector<Operation *> &weightOps);
  void savedOfMain(size_t level, Segment &segment, const std::vector<Operation *> &weightOps);
  void parameters();
  void totals();

  const Sharding &lies(Value value) const;
  Shape localOf(Value value) const { return localShape(shapeOf(value), lies(value)); }
  double localBytes(Value value) const {
    return static_cast<double>(elementsOf(localOf(value))) * elementBytes(value, types);
  }
  void need(Value value, const Sharding &wanted, PassWork *pass, bool independent);
  void needOperands(Operation *op, PassWork &pass, bool inBackward);
  LocalShape localShapes() const {
    return [this](Operation *op, bool isResult, unsigned i) {
      const OpSharding &sharding = *ofOp.lookup(op);
      return isResult ? localShape(shapeOf(op->getResult(i)), sharding.results[i])
                      : localShape(shapeOf(op->getOperand(i)), sharding.operands[i]);
    };
  }
  void addOps(KernelBuilder &kernels, const std::vector<Operation *> &ops, PassWork &pass, PassWork *weights,
              bool inBackward);
  void dropouts(Operation *op, Segment &segment) const;
  double workspace(const std::vector<Operation *> &ops, const KernelBuilder &kernels) const;
  double pending(const std::vector<Operation *> &weightOps, const llvm::SmallPtrSetImpl<Operation *> &inputOps,
                 ArrayRef<Value> given) const;

  SymbolTable symbols;
  const Placement &placement;
  const CollectiveModel &collectives;
  const WorkOptions &options;
  func::FuncOp main;
  KernelTypes types;
  DenseMap<Operation *, const OpSharding *> ofOp;
  DenseMap<BlockArgument, const OpSharding *> ofArgument;
  DenseMap<Value, std::vector<Sharding>> versions; // besides the one that its producer leaves
  std::vector<Run> runs;
  DenseMap<Operation *, size_t> level; // of @main's ops: how many runs come before
  ModelWork work;
};

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

/// The collectives that bring the value to where it is wanted, from wherever it is cheapest. A form made once is there
/// for all.
void Bridge::need(Value value, const Sharding &wanted, PassWork *pass, bool independent) {
  std::vector<Sharding> &made = versions[value];
  if (made.empty())
    made.push_back(lies(value));
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
  bool isSum = isa_and_nonnull<DotGeneralOp>(value.getDefiningOp());
  Sharding before = start;
  for (const ReshardStep &step : *best) {
    double in = static_cast<double>(elementsOf(localShape(shape, before))) * bytes,
           out = static_cast<double>(elementsOf(localShape(shape, step.after))) * bytes;
    before = step.after;
    PassCollective collective;
    bool reduces = step.kind == ReshardStepKind::AllReduce || step.kind == ReshardStepKind::ReduceScatter;
    switch (step.kind) {
    case ReshardStepKind::LocalSlice:
      continue;
    case ReshardStepKind::AllReduce:
      collective.kind = Collective::AllReduce;
      break;
    case ReshardStepKind::ReduceScatter:
      collective.kind = Collective::ReduceScatter;
      break;
    case ReshardStepKind::AllGather:
      collective.kind = Collective::AllGather;
      break;
    case ReshardStepKind::AllToAll:
      collective.kind = Collective::AllToAll;
      break;
    case ReshardStepKind::CollectivePermute:
      collective.kind = Collective::Permute;
      break;
    }
    bool known = true;
    for (AxisRef axis : step.axes) {
      const std::optional<AxisRef> &real = options.axes[axis.axis];
      known &= real.has_value();
      if (real)
        collective.axes.push_back({real->axis, axis.before, axis.size});
    }
    if (!known) // over microbatches, not ranks
      continue;
    collective.bytes = step.kind == ReshardStepKind::AllGather ? out : in;
    collective.name = fmt::format("{} of {}", toString(collective.kind), nodeName(value.getLoc()));
    collective.independent = independent && (reduces ? isSum : isa<BlockArgument>(value));
    pass->collectives.push_back(std::move(collective));
  }
}

void Bridge::needOperands(Operation *op, PassWork &pass, bool inBackward) {
  const OpSharding &sharding = *ofOp.lookup(op);
  for (auto [i, value] : llvm::enumerate(op->getOperands()))
    need(value, sharding.operands[i], &pass, inBackward);
  // A loss over a cut vocabulary: its maximum, its sum and the picked logit are summed over the ranks.
  if (!isa<CrossEntropyOp>(op))
    return;
  const std::vector<AxisRef> &cut = sharding.operands[0].dims.back().axes;
  PassCollective collective;
  for (AxisRef axis : cut)
    if (const std::optional<AxisRef> &real = options.axes[axis.axis])
      collective.axes.push_back({real->axis, axis.before, axis.size});
  if (collective.axes.empty())
    return;
  Shape rows = localShape(shapeOf(op->getResult(0)), sharding.results[0]);
  collective.bytes = static_cast<double>(elementsOf(rows)) * elementBytes(op->getResult(0), types);
  for (const char *what : {"maximum", "sum", "picked logit"}) {
    collective.name = fmt::format("{} of the loss", what);
    pass.collectives.push_back(collective);
  }
}

void Bridge::addOps(KernelBuilder &kernels, const std::vector<Operation *> &ops, PassWork &pass, PassWork *weights,
                    bool inBackward) {
  kernels.beginPass();
  for (Operation *op : ops) {
    needOperands(op, pass, inBackward);
    if (weights && isa<LayerNormBackwardOp, RmsNormBackwardOp>(op))
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
  segment.saved.push_back({"mask of " + nodeName(op->getLoc()), kMaskBytes * elements, Kept::Always, false});
  Kernel kernel;
  kernel.name = nodeName(op->getLoc()) + " dropout@backward";
  kernel.work.kernelClass = KernelClass::Pointwise;
  kernel.work.bytes = (2 * types.bytes + kMaskBytes) * elements;
  kernel.work.flops = elements;
  segment.inputGradient.kernels.push_back(kernel);
}

Status Bridge::findRuns() {
  for (CallOp call : main.getOps<CallOp>()) {
    auto callee = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
    auto repeat = call->getAttrOfType<IntegerAttr>(KerfDialect::kRepeatAttr);
    int64_t count = repeat ? repeat.getInt() : 1;
    if (isBackward(call))
      continue;
    if (runs.empty() || runs.back().layer != callee)
      runs.push_back({call, call, nullptr, callee, nullptr, 0});
    runs.back().last = call;
    runs.back().count += count;
  }
  // The backward of a run's first call: the last one that reads what the layers of this run leave.
  for (CallOp call : main.getOps<CallOp>()) {
    if (!isBackward(call))
      continue;
    for (Run &run : runs)
      if (llvm::any_of(call.getInputs(),
                       [&](Value value) { return value.getDefiningOp() == run.first.getOperation(); })) {
        run.backward = call;
        run.layerBackward = cast<func::FuncOp>(symbols.lookup(call.getCallee()));
      }
  }
  for (Run &run : runs)
    if (!run.backward)
      return Error{
          fmt::format("@{} is called and not differentiated: nothing in it is trained", run.layer.getName().str())};
  return ok();
}

/// Forward ops after as many runs as they need; backward ops between the runs whose gradients they need and give.
void Bridge::placeMainOps() {
  auto runOf = [&](CallOp call) {
    auto callee = call.getCallee();
    for (size_t r = 0; r < runs.size(); ++r)
      if (runs[r].layer.getName() == callee || (runs[r].layerBackward && runs[r].layerBackward.getName() == callee))
        return r;
    return size_t(0);
  };
  for (Operation &op : main.front().without_terminator()) {
    bool back = isBackward(&op);
    size_t its = back ? runs.size() : 0;
    for (Value operand : op.getOperands())
      if (Operation *from = operand.getDefiningOp()) {
        auto call = dyn_cast<CallOp>(from);
        if (back && isBackward(from))
          its = std::min(its, call ? runOf(call) : level.lookup(from));
        if (!back)
          its = std::max(its, call ? runOf(call) + 1 : level.lookup(from));
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
      latest = std::min(latest, call                                      ? runOf(call)
                                : user->hasTrait<OpTrait::IsTerminator>() ? runs.size()
                                                                          : level.lookup(user));
    }
    level[&op] = std::max(level[&op], latest);
  }
}

void Bridge::forwardOfMain() {
  KernelBuilder kernels(types, localShapes());
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

/// Bytes of what lives at once among the results of these ops (those of parameters' gradients aside).
double Bridge::workspace(const std::vector<Operation *> &ops, const KernelBuilder &kernels) const {
  DenseMap<Operation *, size_t> index;
  for (size_t i = 0; i < ops.size(); ++i)
    index[ops[i]] = i;
  std::vector<double> change(ops.size() + 2, 0);
  for (size_t i = 0; i < ops.size(); ++i)
    for (Value result : ops[i]->getResults()) {
      if (!kernels.isStored(result) || isa<TransposeOp>(ops[i]))
        continue;
      size_t last = i;
      std::function<void(Value)> follow = [&](Value value) {
        for (Operation *user : value.getUsers()) {
          auto found = index.find(user);
          last = std::max(last, found == index.end() ? i : found->second);
          if (KernelBuilder::isVirtual(user))
            follow(user->getResult(0));
        }
      };
      follow(result);
      if (last == i) // leaves the segment: a parameter's gradient, or the segment's own
        continue;
      change[i] += localBytes(result);
      change[last + 1] -= localBytes(result);
    }
  double now = 0, most = 0;
  for (double bytes : change)
    most = std::max(most, now += bytes);
  return most;
}

/// Gradients that products of the weight gradient read, and that the input gradient made or was given.
double Bridge::pending(const std::vector<Operation *> &weightOps, const llvm::SmallPtrSetImpl<Operation *> &inputOps,
                       ArrayRef<Value> given) const {
  llvm::SmallPtrSet<void *, 8> seen;
  double bytes = 0;
  for (Operation *op : weightOps)
    if (isa<DotGeneralOp, EmbeddingBackwardOp>(op))
      for (Value operand : op->getOperands()) {
        Value root = behindViews(operand);
        bool made = root.getDefiningOp() ? inputOps.contains(root.getDefiningOp()) : llvm::is_contained(given, root);
        if (made && seen.insert(root.getAsOpaquePointer()).second)
          bytes += localBytes(root);
      }
  return bytes;
}

/// Splits backward ops: those that the result `wanted` needs, and the rest (of parameters' gradients).
void split(ArrayRef<Operation *> ops, llvm::function_ref<bool(OpOperand &)> wanted, std::vector<Operation *> &input,
           std::vector<Operation *> &weight) {
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
  KernelBuilder kernels(types, localShapes());
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
      need(outer, lies(inner), gradient ? &segment.inputGradient : &link.segment.weightGradient, true);
    }
  }
}

/// What backward ops of this link read and forward ops made: between the layers, and before the loss.
void Bridge::savedOfMain(size_t l, Segment &segment, const std::vector<Operation *> &weightOps) {
  llvm::SmallPtrSet<Operation *, 8> weights(weightOps.begin(), weightOps.end());
  std::vector<Value> order;
  DenseMap<Value, SavedTensor> saved;
  for (Operation &op : main.front().without_terminator()) {
    if (!isBackward(&op) || isa<CallOp>(op) || level[&op] != l)
      continue;
    for (Value operand : op.getOperands()) {
      Value root = behindViews(operand);
      Operation *from = root.getDefiningOp();
      if (!from || isBackward(from) || isa<ConstantOp, BroadcastInDimOp>(from))
        continue;
      auto [found, isNew] = saved.try_emplace(root);
      if (isNew) {
        order.push_back(root);
        found->second = {nodeName(root.getLoc()), localBytes(root), Kept::Always, false};
        if (isa<CrossEntropyBackwardOp>(op) && operand == op.getOperand(0)) // the loss is computed in f32 at least
          found->second.bytes *= std::max(1.0, 4 / types.bytes);
      }
      found->second.forWeights |= weights.contains(&op) && isa<DotGeneralOp>(op);
    }
  }
  for (Value value : order)
    segment.saved.push_back(saved[value]);
}

/// What the layer leaves for its backward: its own stream, and what it computed. What all layers share is kept once,
/// with what makes it.
std::vector<Bridge::Handed> Bridge::handed(Run &run) {
  std::vector<Handed> all;
  Operation *returned = run.layer.front().getTerminator();
  for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments())) {
    Operation *from = outer.getDefiningOp();
    if (from == run.first.getOperation()) {
      all.push_back({behindViews(returned->getOperand(cast<OpResult>(outer).getResultNumber())), inner});
    } else if (from && !isBackward(from)) {
      auto at = llvm::find(run.first.getInputs(), outer);
      if (at != run.first.getInputs().end() && outer.getType() == run.first.getResult(0).getType())
        all.push_back({run.layer.getArgument(at - run.first.getInputs().begin()), inner});
    }
  }
  return all;
}

/// What a pointwise op makes of values that are kept as well, and only pointwise kernels of the backward read, is
/// computed there again: fused activations keep their inputs alone (SwiGLU: gate and up, not the activated gate).
llvm::DenseSet<Value> Bridge::madeAgain(const std::vector<Handed> &all) const {
  auto isPointwise = [](Operation *op) {
    auto its = dyn_cast<WorkOpInterface>(op);
    return its && its.getKernelClass() == KernelClass::Pointwise && !KernelBuilder::isVirtual(op);
  };
  llvm::DenseSet<Value> kept, again;
  for (const Handed &one : all)
    kept.insert(one.made);
  for (const Handed &one : all) {
    Operation *maker = one.made.getDefiningOp();
    bool cheap = maker && isPointwise(maker) && llvm::all_of(maker->getOperands(), [&](Value operand) {
                   Operation *from = behindViews(operand).getDefiningOp();
                   return kept.contains(behindViews(operand)) || (from && isa<ConstantOp, BroadcastInDimOp>(from));
                 });
    if (!cheap || !llvm::all_of(one.inner.getUsers(), isPointwise))
      continue;
    again.insert(one.made);
    again.insert(one.inner);
  }
  return again;
}

void Bridge::savedOfLayer(Run &run, const std::vector<Handed> &all, const llvm::DenseSet<Value> &again,
                          Segment &segment, const std::vector<Operation *> &weightOps) {
  llvm::SmallPtrSet<Operation *, 8> weights(weightOps.begin(), weightOps.end());
  llvm::DenseSet<Value> seen;
  for (auto attention : run.layer.getOps<AttentionOp>()) {
    if (options.fusedAttention)
      continue;
    Shape lse = localOf(attention.getLse());
    double scores = static_cast<double>(elementsOf(lse)) * static_cast<double>(shapeOf(attention.getKey())[1]);
    std::string name = nodeName(attention->getLoc());
    segment.saved.push_back({name + " probabilities", types.bytes * scores, Kept::Selective, false});
    if (attention->hasAttr(KerfDialect::kDropoutAttr)) {
      segment.saved.push_back({name + " mask", kMaskBytes * scores, Kept::Selective, false});
      segment.saved.push_back({name + " dropped", types.bytes * scores, Kept::Selective, false});
    }
  }
  for (const Handed &one : all) {
    auto result = dyn_cast<OpResult>(one.made);
    auto attention = result ? dyn_cast<AttentionOp>(result.getOwner()) : AttentionOp();
    bool lse = attention && result.getResultNumber() == 1;
    if ((lse && !options.fusedAttention) || again.contains(one.made) || !seen.insert(one.made).second)
      continue;
    bool forWeights = false;
    std::function<void(Value)> follow = [&](Value value) {
      for (Operation *user : value.getUsers()) {
        forWeights |= weights.contains(user) && isa<DotGeneralOp>(user);
        if (KernelBuilder::isVirtual(user) || isa<TransposeOp>(user))
          follow(user->getResult(0));
      }
    };
    follow(one.inner);
    std::string name =
        result ? fmt::format("{} {}", nodeName(one.made.getLoc()), result.getOwner()->getName().stripDialect().str())
               : "stream";
    segment.saved.push_back({name, localBytes(one.made), lse ? Kept::Selective : Kept::Always, forWeights});
  }
}

void Bridge::layer(Run &run, ChainLink &link) {
  Segment &segment = link.segment;
  link.layers = run.count;
  segment.name = run.layer.getName().str();
  segment.recomputable = true;
  std::vector<Operation *> forward, backward, input, weight;
  for (Operation &op : run.layer.front().without_terminator())
    forward.push_back(&op);
  for (Operation &op : run.layerBackward.front().without_terminator())
    backward.push_back(&op);
  KernelBuilder forwardKernels(types, localShapes()), kernels(types, localShapes());
  std::vector<Handed> all = handed(run);
  llvm::DenseSet<Value> again = madeAgain(all);
  forwardKernels.setMadeAgain(again);
  kernels.setMadeAgain(again);
  addOps(forwardKernels, forward, segment.forward, nullptr, false);
  for (Operation *op : forward)
    dropouts(op, segment);
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
        if (!options.axes[axis]) // one microbatch of several
          work.streamBytes /= static_cast<double>(placement.mesh.axes[axis].size);
      break;
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
  if (!options.fusedAttention)
    for (auto attention : run.layer.getOps<AttentionOp>()) // the scores' gradient, before and after softmax
      segment.workspaceBytes += 2 * types.bytes * static_cast<double>(elementsOf(localOf(attention.getLse()))) *
                                static_cast<double>(shapeOf(attention.getKey())[1]);
  savedOfLayer(run, all, again, segment, weight);
}

void Bridge::parameters() {
  DenseMap<Value, std::set<size_t>> links;
  auto trainable = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && main.getArgAttr(argument.getArgNumber(), KerfDialect::kTrainableAttr);
  };
  auto group = [&](BlockArgument argument) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
    return ParameterGroup{name ? name.str() : "", static_cast<double>(elementsOf(localOf(argument))), {}};
  };
  for (Operation &op : main.front().without_terminator()) {
    if (isBackward(&op) || isUpdate(&op) || isa<CallOp>(op))
      continue;
    for (Value operand : op.getOperands())
      if (trainable(operand))
        links[operand].insert(2 * level[&op]);
  }
  for (BlockArgument argument : main.getArguments()) {
    auto found = links.find(argument);
    if (found == links.end())
      continue;
    work.chain[*found->second.begin()].segment.parameters.push_back(group(argument));
    for (auto link = std::next(found->second.begin()); link != found->second.end(); ++link)
      work.tied.emplace_back(*link, group(argument));
  }
  for (size_t r = 0; r < runs.size(); ++r)
    for (Value operand : runs[r].first.getInputs())
      if (trainable(operand))
        work.chain[2 * r + 1].segment.parameters.push_back(group(cast<BlockArgument>(operand)));
}

/// Products and attention of the forward three times, attention as if nothing were masked (Chowdhery et al. 2022,
/// appendix B).
void Bridge::totals() {
  auto flopsOf = [](func::FuncOp function) {
    double flops = 0;
    for (Operation &op : function.getOps()) {
      if (isBackward(&op))
        continue;
      if (auto dot = dyn_cast<DotGeneralOp>(op))
        flops += dot.getFlops();
      if (auto attention = dyn_cast<AttentionOp>(op)) {
        Shape query = shapeOf(attention.getQuery()), value = shapeOf(attention.getValue());
        flops += 2.0 * static_cast<double>(elementsOf(query)) / static_cast<double>(query[3]) *
                 static_cast<double>(value[1]) * static_cast<double>(query[3] + value[3]);
      }
    }
    return flops;
  };
  work.modelFlops = flopsOf(main);
  for (Run &run : runs)
    work.modelFlops += static_cast<double>(run.count) * flopsOf(run.layer);
  work.modelFlops *= kForwardAndBackward;
  for (BlockArgument argument : main.getArguments()) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    if (!kind || kind.getValue() != "input" || tensorType(argument).getRank() == 0)
      continue;
    Shape shape = shapeOf(argument);
    bool tokens = shape.size() == 2 && isa<IntegerType>(tensorType(argument).getElementType());
    work.tokens = static_cast<double>(shape[0]) * static_cast<double>(tokens ? shape[1] : 1);
    break;
  }
}

Result<ModelWork> Bridge::run() {
  if (Status status = findRuns(); !status)
    return status.error();
  work.chain.resize(2 * runs.size() + 1);
  placeMainOps();
  for (size_t l = 0; l <= runs.size(); ++l)
    work.chain[2 * l].segment.name = l == runs.size() ? (runs.empty() ? "model" : "head")
                                     : l == 0         ? "embedding"
                                                      : "between";
  for (size_t r = 0; r < runs.size(); ++r)
    layer(runs[r], work.chain[2 * r + 1]);
  forwardOfMain();
  backwardOfMain();
  parameters();
  totals();
  return std::move(work);
}

} // namespace

Result<ModelWork> modelWork(ModuleOp module, const Placement &placement, const std::vector<int> &choice,
                            const CollectiveModel &collectives, const WorkOptions &options) {
  return Bridge(module, placement, choice, collectives, options).run();
}

} // namespace kerf
