// SPDX-License-Identifier: Apache-2.0
#include "ModelBridge.h"

#include "llvm/ADT/StringMap.h"
#include <fmt/format.h>
#include <map>
#include <set>

namespace kerf::bridge {

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
    if (isa<DotGeneralOp>(op) || op->hasTrait<UsesTable>())
      for (Value operand : op->getOperands()) {
        Value root = behindViews(operand);
        bool made = root.getDefiningOp() ? inputOps.contains(root.getDefiningOp()) : llvm::is_contained(given, root);
        if (made && seen.insert(root.getAsOpaquePointer()).second)
          bytes += localBytes(root);
      }
  return bytes;
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
      if (!from || isBackward(from) || isMadeAgain(from))
        continue;
      auto [found, isNew] = saved.try_emplace(root);
      if (isNew) {
        order.push_back(root);
        found->second = {nodeName(root.getLoc()), localBytes(root), RunAgain::Full, false};
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
                   return kept.contains(behindViews(operand)) || (from && isMadeAgain(from));
                 });
    if (!cheap || !llvm::all_of(one.inner.getUsers(), isPointwise))
      continue;
    again.insert(one.made);
    again.insert(one.inner);
  }
  return again;
}

/// Where a plan says of ops whether they run again. To make a dropped value again all runs that it takes, from kept
/// values on. What must not run again is kept for those that need it.
void Bridge::pinRecomputation(Run &run, const std::vector<Handed> &all, Segment &segment) {
  runAgain.clear();
  llvm::DenseSet<Value> kept; // unless their own op runs again
  for (const Handed &one : all)
    kept.insert(one.made);
  bool pins = false;
  for (Operation &op : run.layer.front().without_terminator()) {
    auto pin = recomputePin(&op);
    pins |= pin.has_value();
    runAgain[&op] = pin                    ? (*pin ? RunAgain::Always : RunAgain::Never)
                    : isAttentionCore(&op) ? RunAgain::Selective
                                           : RunAgain::Full;
  }
  if (!pins)
    return runAgain.clear();
  DenseMap<Operation *, Recompute> needed; // of those that never run again: the least recomputation that reads them
  for (Operation &op : llvm::reverse(run.layer.front().without_terminator())) {
    RunAgain its = runAgain[&op];
    if (its == RunAgain::Never)
      continue;
    for (Value operand : op.getOperands()) {
      Operation *from = behindViews(operand).getDefiningOp();
      if (!from || kept.contains(behindViews(operand)))
        continue;
      if (RunAgain &made = runAgain[from]; made != RunAgain::Never)
        made = std::min(made, its);
      else if (auto [at, isNew] = needed.try_emplace(from, static_cast<Recompute>(its)); !isNew)
        at->second = std::min(at->second, static_cast<Recompute>(its));
    }
  }
  for (Operation &op : run.layer.front().without_terminator())
    if (auto from = needed.find(&op); from != needed.end())
      segment.saved.push_back({fmt::format("{} {}", nodeName(op.getLoc()), op.getName().stripDialect().str()),
                               localBytes(op.getResult(0)), RunAgain::Never, false, from->second});
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
    RunAgain core = runAgain.empty() ? RunAgain::Selective : runAgain.lookup(attention);
    segment.saved.push_back({name + " probabilities", types.bytes * scores, core, false});
    if (attention->hasAttr(KerfDialect::kDropoutAttr)) {
      segment.saved.push_back({name + " mask", kMaskBytes * scores, core, false});
      segment.saved.push_back({name + " dropped", types.bytes * scores, core, false});
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
    auto pinned = runAgain.find(one.made.getDefiningOp());
    segment.saved.push_back({name, localBytes(one.made),
                             pinned != runAgain.end() ? pinned->second
                             : lse                    ? RunAgain::Selective
                                                      : RunAgain::Full,
                             forWeights});
  }
}

/// Where the ranks of a part of an axis have copies of what its other parts cut, and gradients that are yet to be added
/// up over them.
std::vector<AxisRef> Bridge::copiesOf(BlockArgument parameter, Value gradient) const {
  std::vector<AxisRef> cut, copies;
  for (const DimSharding &dim : lies(parameter).dims)
    if (auto axes = planAxes(dim.axes))
      cut.insert(cut.end(), axes->begin(), axes->end());
  for (const AxisRef &ref : lies(gradient).partial)
    if (auto axes = planAxes(ref))
      if (llvm::any_of(cut, [&](const AxisRef &its) { return its.axis == axes->front().axis; }))
        copies.push_back(axes->front());
  return copies;
}

/// Returns the floating-point operations of the products in the rule that makes `updated`, a new parameter. Scalars are
/// not followed: a factor of clipping is made of all gradients.
static double productFlops(Value updated) {
  double flops = 0;
  SmallVector<Value> open = {updated};
  DenseSet<Operation *> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !op->hasAttr(KerfDialect::kUpdateAttr) || !seen.insert(op).second)
      continue;
    if (auto work = dyn_cast<WorkOpInterface>(op); work && kernelClassOf(op) == KernelClass::Product)
      flops += work.getFlops();
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType()); type && type.getRank() > 0)
        open.push_back(operand);
  }
  return flops;
}

void Bridge::parameters() {
  // Each sees samples or tokens of its own, and all of the parameter.
  std::vector<AxisRef> gradientAxes;
  for (const char *axis : {"data", "context", "expert"})
    gradientAxes.push_back({planAxis(axis), 1, 0});
  DenseMap<Value, std::set<size_t>> links;
  auto trainable = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && main.getArgAttr(argument.getArgNumber(), KerfDialect::kTrainableAttr);
  };
  auto group = [&](BlockArgument argument) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
    std::vector<AxisRef> axes = gradientAxes; // less those whose ranks have other experts
    for (const DimSharding &dim : lies(argument).dims)
      if (auto cut = planAxes(dim.axes))
        for (const AxisRef &ref : *cut)
          std::erase_if(axes, [&](const AxisRef &its) { return its.axis == ref.axis; });
    auto elements = static_cast<double>(elementsOf(localOf(argument)));
    auto result = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), KerfDialect::kUpdatedByAttr);
    double flops = result ? productFlops(main.front().getTerminator()->getOperand(result.getInt())) : 0;
    double share = elements / static_cast<double>(std::max<int64_t>(1, elementsOf(shapeOf(argument))));
    return ParameterGroup{name ? name.str() : "", elements, std::move(axes), flops * share};
  };
  llvm::StringMap<Value> gradients;
  for (auto sync : main.getOps<SyncGradientOp>())
    gradients[sync.getParameter()] = sync.getOperand();
  auto add = [&](Segment &segment, BlockArgument argument) {
    segment.parameters.push_back(group(argument));
    const ParameterGroup &its = segment.parameters.back();
    Value gradient = gradients.lookup(its.name);
    if (std::vector<AxisRef> copies = gradient ? copiesOf(argument, gradient) : std::vector<AxisRef>(); !copies.empty())
      segment.copied.push_back({its.name, its.elements, std::move(copies)});
  };
  for (Operation &op : main.front().without_terminator()) {
    if (isBackward(&op) || isUpdate(&op) || isa<CallOp>(op))
      continue;
    for (Value operand : op.getOperands())
      if (trainable(operand))
        links[operand].insert(2 * level[&op]);
  }
  for (size_t r = 0; r < runs.size(); ++r)
    if (runs[r].count == 1)
      for (Value operand : runs[r].first.getInputs())
        if (trainable(operand))
          links[operand].insert(2 * r + 1);
  for (BlockArgument argument : main.getArguments()) {
    auto found = links.find(argument);
    if (found == links.end())
      continue;
    add(work.chain[*found->second.begin()].segment, argument);
    for (auto link = std::next(found->second.begin()); link != found->second.end(); ++link)
      work.tied.emplace_back(*link, group(argument));
  }
  for (size_t r = 0; r < runs.size(); ++r)
    for (Value operand : runs[r].first.getInputs())
      if (runs[r].count > 1 && trainable(operand))
        add(work.chain[2 * r + 1].segment, cast<BlockArgument>(operand));
}

/// Products and attention of the forward three times, attention as if nothing were masked (Chowdhery et al. 2022,
/// appendix B).
void Bridge::totals() {
  auto flopsOf = [](func::FuncOp function) {
    double flops = 0;
    DenseMap<Operation *, double> filled; // of what stands in experts' slots: the share of slots that choices fill
    for (Operation &op : function.getOps()) {
      if (isBackward(&op))
        continue;
      double share = 1;
      for (Value operand : op.getOperands())
        if (auto found = filled.find(operand.getDefiningOp()); found != filled.end())
          share = std::min(share, found->second);
      if (auto dispatch = dyn_cast<DispatchOp>(op)) {
        Shape slots = shapeOf(dispatch.getResult());
        share = std::min(1.0, static_cast<double>(elementsOf(shapeOf(dispatch.getIndices()))) /
                                  static_cast<double>(slots[0] * slots[1] * slots[2]));
      }
      if (share < 1 && !isa<CombineOp>(op))
        filled[&op] = share;
      if (auto dot = dyn_cast<DotGeneralOp>(op))
        flops += share * dot.getFlops();
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

} // namespace kerf::bridge
