// SPDX-License-Identifier: Apache-2.0
#include "ModelBridge.h"

#include "llvm/ADT/StringMap.h"
#include <fmt/format.h>
#include <map>
#include <set>

namespace kerf::bridge {

double Bridge::workspaceBytes(const std::vector<Operation *> &ops, const KernelBuilder &kernels) const {
  DenseMap<Operation *, size_t> index;
  for (size_t i = 0; i < ops.size(); ++i)
    index[ops[i]] = i;
  std::vector<double> change(ops.size() + 2, 0);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (isa<CrossEntropyBackwardOp>(ops[i])) {
      double copies = types.lossBytes * static_cast<double>(elementsOf(localOf(ops[i]->getResult(0))));
      change[i] += copies;
      change[i + 1] -= copies;
    }
    for (Value result : ops[i]->getResults()) {
      if (!kernels.isStored(result) || isa<TransposeOp>(ops[i]) ||
          (isa<CrossEntropyBackwardOp>(ops[i]) && types.fusedLoss))
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
      if (last == i) // the value leaves the segment: it is the gradient of a parameter or the segment's result
        continue;
      change[i] += localBytes(result);
      change[last + 1] -= localBytes(result);
    }
  }
  double now = 0, most = 0;
  for (double bytes : change)
    most = std::max(most, now += bytes);
  return most;
}

double Bridge::pendingBytes(const std::vector<Operation *> &weightOps,
                            const llvm::SmallPtrSetImpl<Operation *> &inputOps, ArrayRef<Value> given) const {
  llvm::SmallPtrSet<void *, 8> seen;
  double bytes = 0;
  auto shardingOfUse = [&](OpOperand &use) -> const Sharding & {
    return shardingOfOp.lookup(use.getOwner())->operands[use.getOperandNumber()];
  };
  for (Operation *op : weightOps)
    if (isa<DotGeneralOp>(op) || op->hasTrait<UsesTable>())
      for (OpOperand &use : op->getOpOperands()) {
        Value root = storageOf(use.get());
        bool made = root.getDefiningOp() ? inputOps.contains(root.getDefiningOp()) : llvm::is_contained(given, root);
        if (!made || !seen.insert(root.getAsOpaquePointer()).second)
          continue;
        // Where the input gradient reads the same shards as the weight gradient, it has gathered them already.
        bool gathered = llvm::any_of(use.get().getUses(), [&](OpOperand &other) {
          return inputOps.contains(other.getOwner()) && shardingOfUse(other) == shardingOfUse(use);
        });
        double its = types.hasEightBitFactors(op) ? kEightBitBytes : elementBytes(use.get(), types);
        double whole = its * static_cast<double>(elementsOf(localShape(shapeOf(use.get()), shardingOfUse(use))));
        double held = its * static_cast<double>(elementsOf(localOf(root)));
        bytes += gathered ? std::max(held, whole) : held;
      }
  return bytes;
}

void Bridge::addMainActivations(size_t l, Segment &segment, const std::vector<Operation *> &weightOps) {
  llvm::SmallPtrSet<Operation *, 8> weights(weightOps.begin(), weightOps.end());
  std::vector<Value> order;
  DenseMap<Value, SavedTensor> saved;
  DenseSet<std::pair<Value, unsigned>> counted; // values, and whether their 8-bit copy is meant
  for (Operation &op : main.front().without_terminator()) {
    if (!isBackward(&op) || isa<CallOp>(op) || level[&op] != l)
      continue;
    for (Value operand : op.getOperands()) {
      Value root = storageOf(operand);
      Operation *from = root.getDefiningOp();
      if (!from || isBackward(from) || isCheaperToRecompute(from))
        continue;
      auto [found, isNew] = saved.try_emplace(root);
      if (isNew) {
        order.push_back(root);
        found->second = {nodeName(root.getLoc()), 0, RecomputeModes::Others, false};
      }
      if (unsigned inEightBits = types.hasEightBitFactors(&op); counted.insert({root, inEightBits}).second) {
        double bytes = inEightBits ? kEightBitBytes * static_cast<double>(elementsOf(localOf(root))) + types.bytes
                                   : localBytes(root);
        if (isa<CrossEntropyBackwardOp>(op) && operand == op.getOperand(0) && !types.fusedLoss)
          bytes *= std::max(1.0, 4 / types.bytes);
        found->second.bytes += bytes;
      }
      found->second.neededForWeightGradient |= weights.contains(&op) && isa<DotGeneralOp>(op);
    }
  }
  for (Value value : order)
    segment.saved.push_back(saved[value]);
}

/// Values that all layers share are not listed here: they are saved once, by the op of @main that computes them.
std::vector<Bridge::SavedValue> Bridge::savedValues(Run &run) {
  std::vector<SavedValue> all;
  Operation *returned = run.layer.front().getTerminator();
  for (auto [outer, inner] : llvm::zip(run.backward.getInputs(), run.layerBackward.getArguments())) {
    Operation *from = outer.getDefiningOp();
    if (from == run.first.getOperation()) {
      all.push_back({storageOf(returned->getOperand(cast<OpResult>(outer).getResultNumber())), inner});
    } else if (from && !isBackward(from)) {
      auto at = llvm::find(run.first.getInputs(), outer);
      if (at != run.first.getInputs().end() && isStream(run, outer))
        all.push_back({run.layer.getArgument(at - run.first.getInputs().begin()), inner});
    }
  }
  return all;
}

/// The result of a pointwise op is recomputed where the op's operands are saved as well and only pointwise kernels of
/// the backward pass read the result. A fused activation then saves only its inputs (SwiGLU: gate and up, but not the
/// activated gate).
llvm::DenseSet<Value> Bridge::recomputedValues(const std::vector<SavedValue> &all) const {
  auto isPointwise = [](Operation *op) {
    auto its = dyn_cast<WorkOpInterface>(op);
    return its && its.getKernelClass() == KernelClass::Pointwise && !KernelBuilder::isVirtual(op);
  };
  llvm::DenseSet<Value> kept, recomputed;
  for (const SavedValue &one : all)
    kept.insert(one.computed);
  for (const SavedValue &one : all) {
    Operation *maker = one.computed.getDefiningOp();
    bool cheap = maker && isPointwise(maker) && llvm::all_of(maker->getOperands(), [&](Value operand) {
                   Operation *from = storageOf(operand).getDefiningOp();
                   return kept.contains(storageOf(operand)) || (from && isCheaperToRecompute(from));
                 });
    if (!cheap || !llvm::all_of(one.inBackward.getUsers(), isPointwise))
      continue;
    recomputed.insert(one.computed);
    recomputed.insert(one.inBackward);
  }
  return recomputed;
}

void Bridge::findPointwiseOps(Run &run, const std::vector<SavedValue> &all) {
  llvm::DenseSet<Value> kept, streams;
  for (const SavedValue &one : all)
    kept.insert(one.computed);
  for (auto [outer, inner] : llvm::zip(run.first.getInputs(), run.layer.getArguments()))
    if (isStream(run, outer))
      streams.insert(inner);
  auto isSaved = [&](Value value) {
    return kept.contains(storageOf(value)) || (isa<BlockArgument>(value) && !streams.contains(value));
  };
  auto isAtHand = [&](OpOperand &use) {
    const OpSharding *sharding = shardingOfOp.lookup(use.getOwner());
    return !sharding || sharding->operands[use.getOperandNumber()] == shardingOf(use.get());
  };
  pointwiseOps = pointwiseRecomputation(run.layer.front(), isSaved, isAtHand);
}

/// To recompute a dropped value, all ops are recomputed that lead from saved values to it. The result of an op that
/// must not be recomputed is saved for the recomputed ops that read it.
void Bridge::pinRecomputation(Run &run, const std::vector<SavedValue> &all, Segment &segment) {
  recomputedByOf.clear();
  llvm::DenseSet<Value> kept; // saved values; one that its own op recomputes is saved under some modes only
  for (const SavedValue &one : all)
    kept.insert(one.computed);
  bool pins = false;
  for (Operation &op : run.layer.front().without_terminator()) {
    auto pin = recomputationPin(&op);
    pins |= pin.has_value();
    recomputedByOf[&op] = pin                          ? (*pin ? RecomputeModes::Always : RecomputeModes::Never)
                          : isAttentionKernel(&op)     ? types.coreModes()
                          : isAttentionCore(&op)       ? RecomputeModes::Scores
                          : pointwiseOps.contains(&op) ? RecomputeModes::Pointwise
                                                       : RecomputeModes::Others;
  }
  if (!pins)
    return recomputedByOf.clear();
  DenseMap<Operation *, RecomputeModes> needed; // for ops that are never recomputed: modes under which they are read
  for (Operation &op : llvm::reverse(run.layer.front().without_terminator())) {
    RecomputeModes its = recomputedByOf[&op];
    if (its == RecomputeModes::Never)
      continue;
    for (Value operand : op.getOperands()) {
      Operation *from = storageOf(operand).getDefiningOp();
      if (!from || kept.contains(storageOf(operand)))
        continue;
      if (RecomputeModes &made = recomputedByOf[from]; made != RecomputeModes::Never)
        made = made | its;
      else if (auto [at, isNew] = needed.try_emplace(from, its); !isNew)
        at->second = at->second | its;
    }
  }
  for (Operation &op : run.layer.front().without_terminator())
    if (auto from = needed.find(&op); from != needed.end())
      segment.saved.push_back({fmt::format("{} {}", nodeName(op.getLoc()), op.getName().stripDialect().str()),
                               localBytes(op.getResult(0)), RecomputeModes::Never, false, from->second});
}

double Bridge::savedBytes(const SavedValue &one) const {
  bool inEightBits = false, inOwnType = !types.eightBit;
  std::function<void(Value)> follow = [&](Value value) {
    for (Operation *user : value.getUsers())
      if (KernelBuilder::isVirtual(user) || isa<TransposeOp>(user))
        follow(user->getResult(0));
      else
        (types.hasEightBitFactors(user) ? inEightBits : inOwnType) = true;
  };
  follow(one.inBackward);
  double magnitude = types.bytes, count = static_cast<double>(elementsOf(localOf(one.computed)));
  return (inOwnType || !inEightBits ? localBytes(one.computed) : 0) +
         (inEightBits ? kEightBitBytes * count + magnitude : 0);
}

void Bridge::addLayerActivations(Run &run, const std::vector<SavedValue> &all, const llvm::DenseSet<Value> &recomputed,
                                 Segment &segment, const std::vector<Operation *> &weightOps) {
  llvm::SmallPtrSet<Operation *, 8> weights(weightOps.begin(), weightOps.end());
  llvm::DenseSet<Value> seen;
  for (auto attention : run.layer.getOps<AttentionOp>()) {
    if (options.fusedAttention)
      continue;
    Shape lse = localOf(attention.getLse());
    double scores = static_cast<double>(elementsOf(lse)) * static_cast<double>(shapeOf(attention.getKey())[1]);
    std::string name = nodeName(attention->getLoc());
    RecomputeModes core = recomputedByOf.empty() ? types.coreModes() : recomputedByOf.lookup(attention);
    segment.saved.push_back({name + " probabilities", types.bytes * scores, core, false});
    if (attention->hasAttr(KerfDialect::kDropoutAttr)) {
      segment.saved.push_back({name + " mask", kMaskBytes * scores, core, false});
      segment.saved.push_back({name + " dropped", types.bytes * scores, core, false});
    }
  }
  for (const SavedValue &one : all) {
    auto result = dyn_cast<OpResult>(one.computed);
    auto attention = result ? dyn_cast<AttentionOp>(result.getOwner()) : AttentionOp();
    bool lse = attention && result.getResultNumber() == 1;
    if ((lse && !options.fusedAttention) || recomputed.contains(one.computed) || !seen.insert(one.computed).second)
      continue;
    bool forWeights = false;
    std::function<void(Value)> follow = [&](Value value) {
      for (Operation *user : value.getUsers()) {
        forWeights |= weights.contains(user) && isa<DotGeneralOp>(user);
        if (KernelBuilder::isVirtual(user) || isa<TransposeOp>(user))
          follow(user->getResult(0));
      }
    };
    follow(one.inBackward);
    std::string name = result ? fmt::format("{} {}", nodeName(one.computed.getLoc()),
                                            result.getOwner()->getName().stripDialect().str())
                              : "stream";
    auto pinned = recomputedByOf.find(one.computed.getDefiningOp());
    segment.saved.push_back({name, savedBytes(one),
                             pinned != recomputedByOf.end()                       ? pinned->second
                             : lse                                                ? RecomputeModes::Attention
                             : attention && options.fusedAttention                ? RecomputeModes::Context
                             : result && pointwiseOps.contains(result.getOwner()) ? RecomputeModes::Pointwise
                                                                                  : RecomputeModes::Others,
                             forWeights});
  }
}

/// Example: key/value heads, if "model" has more ranks than there are heads. One sub-axis of "model" shards them, the
/// ranks along its other sub-axes have copies, and each copy's gradient is only a partial sum.
std::vector<AxisRef> Bridge::axesOfCopies(BlockArgument parameter, Value gradient) const {
  std::vector<AxisRef> cut, copies;
  for (const DimSharding &dim : shardingOf(parameter).dims)
    if (auto axes = planAxes(dim.axes))
      cut.insert(cut.end(), axes->begin(), axes->end());
  for (const AxisRef &ref : shardingOf(gradient).partial)
    if (auto axes = planAxes(ref))
      if (llvm::any_of(cut, [&](const AxisRef &its) { return its.axis == axes->front().axis; }))
        copies.push_back(axes->front());
  return copies;
}

/// Returns the floating-point operations of the products in the optimizer's rule that computes the new parameter
/// `updated`. Scalar operands are not followed, because the factor of clipping depends on all gradients.
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

void Bridge::addParameters() {
  // Ranks along these axes have different samples or tokens and the same parameters.
  std::vector<AxisRef> gradientAxes;
  for (const char *axis : {"data", "context", "expert"})
    gradientAxes.push_back({planAxis(axis), 1, 0});
  DenseMap<Value, std::set<size_t>> segmentsOf;
  auto trainable = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && main.getArgAttr(argument.getArgNumber(), KerfDialect::kTrainableAttr);
  };
  auto group = [&](BlockArgument argument) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
    std::vector<AxisRef> axes = gradientAxes; // without those along which ranks have different experts
    for (const DimSharding &dim : shardingOf(argument).dims)
      if (auto cut = planAxes(dim.axes))
        for (const AxisRef &ref : *cut)
          std::erase_if(axes, [&](const AxisRef &its) { return its.axis == ref.axis; });
    auto elements = static_cast<double>(elementsOf(localOf(argument)));
    auto result = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), KerfDialect::kUpdatedByAttr);
    double flops = result ? productFlops(main.front().getTerminator()->getOperand(result.getInt())) : 0;
    double share = elements / static_cast<double>(std::max<int64_t>(1, elementsOf(shapeOf(argument))));
    ParameterGroup its{name ? name.str() : "", elements, std::move(axes), flops * share};
    its.shape = localOf(argument);
    // A vector stays one where passes have split its dimension.
    auto exported = main.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), KerfDialect::kExportedShapeAttr);
    if (exported && exported.size() < 2)
      its.shape = {elementsOf(its.shape)};
    its.parameter = its.name;
    its.isTable = llvm::any_of(argument.getUsers(), [](Operation *user) { return user->hasTrait<UsesTable>(); });
    return its;
  };
  llvm::StringMap<Value> gradients;
  for (auto sync : main.getOps<SyncGradientOp>())
    gradients[sync.getParameter()] = sync.getOperand();
  auto add = [&](Segment &segment, BlockArgument argument) {
    segment.parameters.push_back(group(argument));
    const ParameterGroup &its = segment.parameters.back();
    Value gradient = gradients.lookup(its.name);
    if (std::vector<AxisRef> copies = gradient ? axesOfCopies(argument, gradient) : std::vector<AxisRef>();
        !copies.empty())
      segment.copied.push_back({its.name, its.elements, std::move(copies)});
  };
  for (Operation &op : main.front().without_terminator()) {
    if (isBackward(&op) || isUpdate(&op) || isa<CallOp>(op))
      continue;
    for (Value operand : op.getOperands())
      if (trainable(operand))
        segmentsOf[operand].insert(2 * level[&op]);
  }
  for (size_t r = 0; r < runs.size(); ++r)
    if (runs[r].count == 1)
      for (Value operand : runs[r].first.getInputs())
        if (trainable(operand))
          segmentsOf[operand].insert(2 * r + 1);
  for (BlockArgument argument : main.getArguments()) {
    auto found = segmentsOf.find(argument);
    if (found == segmentsOf.end())
      continue;
    add(work.chain[*found->second.begin()].segment, argument);
    for (auto segment = std::next(found->second.begin()); segment != found->second.end(); ++segment)
      work.tied.emplace_back(*segment, group(argument));
  }
  for (size_t r = 0; r < runs.size(); ++r)
    for (Value operand : runs[r].first.getInputs())
      if (runs[r].count > 1 && trainable(operand))
        add(work.chain[2 * r + 1].segment, cast<BlockArgument>(operand));
}

/// The model FLOP are three times those of products, convolutions and attention in the forward pass, where attention
/// counts as if nothing were masked (Chowdhery et al. 2022, appendix B).
void Bridge::addTotals() {
  auto flopsOf = [](func::FuncOp function) {
    double flops = 0;
    DenseMap<Operation *, double> filled; // for values in experts' slots: the share of the slots that hold a token
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
      if (auto convolution = dyn_cast<ConvolutionOp>(op))
        flops += convolution.getFlops();
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
