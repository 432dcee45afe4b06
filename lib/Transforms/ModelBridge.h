// SPDX-License-Identifier: Apache-2.0
// The walk through a training step that ModelWork.h promises, in two files: ModelWork.cpp finds the runs of layers and
// writes kernels and collectives, ModelMemory.cpp what is kept, and the totals. Private to them.
#pragma once

#include "StepKernels.h"
#include "kerf/Package/Package.h"
#include "kerf/Transforms/ModelWork.h"
#include "kerf/Transforms/RecomputePins.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace kerf::bridge {

using namespace mlir;
using namespace kerf::ir;

inline constexpr double kMaskBytes = 1;
inline constexpr double kRingBuffers = 4;        // of a rank's keys and values
inline constexpr double kForwardAndBackward = 3; // products of the backward: twice those of the forward

inline bool isUpdate(Operation *op) { return isa<SyncGradientOp>(op) || op->hasAttr(KerfDialect::kUpdateAttr); }
inline bool isBackward(Operation *op) { return op->hasAttr(KerfDialect::kBackwardAttr); }

/// Only the optimizer reads it: the gradient of a parameter.
inline bool isParameterGradient(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [](Operation *user) {
    return isUpdate(user) || (isa<AddOp>(user) && isParameterGradient(user->getResult(0)));
  });
}

/// The value in memory that a view shows.
inline Value behindViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// A run of calls of one layer, forward and backward.
struct Run {
  CallOp first, backward; // backward: of `first`, or null
  func::FuncOp layer, layerBackward;
  SmallVector<CallOp> calls; // forward
  int64_t count = 0;         // of layers
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
      if (node.op) {
        ofOp[node.op] = &sharding;
        cutsOf[node.op] = {&node.rule, &node.strategies[choice[i]]};
      }
      if (node.argument)
        ofArgument[node.argument] = &sharding;
    }
  }

  Result<ModelWork> run();

private:
  Status findRuns();
  void findTrained();
  void placeMainOps();
  void forwardOfMain();
  void backwardOfMain();
  void layer(Run &run, ChainLink &link);
  DenseMap<Operation *, int64_t> partsOfOps();
  void received();
  struct Handed {
    Value made, inner; // in the layer, and as its backward knows it
  };
  std::vector<Handed> handed(Run &run);
  std::vector<Sharding> keptForms(Run &run, Value outer, Value inner) const;
  void keepForms(Run &run);
  llvm::DenseSet<Value> madeAgain(const std::vector<Handed> &all) const;
  void pinRecomputation(Run &run, const std::vector<Handed> &all, Segment &segment);
  void savedOfLayer(Run &run, const std::vector<Handed> &all, const llvm::DenseSet<Value> &again, Segment &segment,
                    const std::vector<Operation *> &weightOps);
  void savedOfMain(size_t level, Segment &segment, const std::vector<Operation *> &weightOps);
  std::vector<AxisRef> copiesOf(BlockArgument parameter, Value gradient) const;
  void parameters();
  void totals();

  const Sharding &lies(Value value) const;
  Shape localOf(Value value) const { return localShape(shapeOf(value), lies(value)); }
  double localBytes(Value value) const {
    return static_cast<double>(elementsOf(localOf(value))) * elementBytes(value, types);
  }
  /// Returns the shardings that `value` has been brought into so far; the first is the one in which it is produced.
  std::vector<Sharding> &formsOf(Value value);
  void need(Value value, const Sharding &wanted, PassWork *pass, bool independent, bool byProduct = false);
  void needOperands(Operation *op, PassWork &pass, bool inBackward);
  /// What these axes of the placement are in a plan; nothing where one of them stands for microbatches.
  std::optional<std::vector<AxisRef>> planAxes(ArrayRef<AxisRef> axes) const;
  /// The axes by which attention's keys and values lie cut: they pass round a ring.
  std::vector<AxisRef> ringOf(Operation *attention) const;
  double keyValueBytes(Operation *attention) const;
  void addRing(Operation *attention, PassWork &pass) const;
  LocalShape localShapes() const {
    return [this](Operation *op, bool isResult, unsigned i) {
      const OpSharding &sharding = *ofOp.lookup(op);
      return isResult ? localShape(shapeOf(op->getResult(i)), sharding.results[i])
                      : localShape(shapeOf(op->getOperand(i)), sharding.operands[i]);
    };
  }
  CutsOf cuts() const;
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
  DenseMap<Operation *, std::pair<const Rule *, const Strategy *>> cutsOf;
  DenseMap<BlockArgument, const OpSharding *> ofArgument;
  DenseMap<Value, std::vector<Sharding>> versions; // besides the one that its producer leaves
  llvm::SmallPtrSet<Operation *, 32> forWeights;   // ops of weight gradients
  DenseMap<Operation *, RunAgain> runAgain;        // ops of layers of which a plan says something; empty: it does not
  std::vector<Run> runs;
  DenseMap<Operation *, size_t> runOf;   // of calls, forward and backward
  llvm::DenseSet<Operation *> ofTrained; // forward ops of @main, and calls, that depend on what is trained
  DenseMap<Operation *, size_t> level;   // of @main's ops: how many runs come before
  ModelWork work;
};

} // namespace kerf::bridge
