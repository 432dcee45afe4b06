// SPDX-License-Identifier: Apache-2.0
// The class that converts a training step to ModelWork (kerf/Transforms/ModelWork.h). Its implementation has two files:
// ModelWork.cpp finds the runs of layers and writes kernels and collectives; ModelMemory.cpp writes saved activations,
// parameters and totals. Only these two include this file.
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

inline constexpr double kMaskBytes = 1;          // bytes of one element of a dropout mask
inline constexpr double kForwardAndBackward = 3; // ratio of a step's FLOP to those of its forward pass

/// Returns whether the op belongs to the optimizer, or is the synchronization of a gradient before it.
inline bool isUpdate(Operation *op) { return isa<SyncGradientOp>(op) || op->hasAttr(KerfDialect::kUpdateAttr); }
/// Returns whether differentiation created the op.
inline bool isBackward(Operation *op) { return op->hasAttr(KerfDialect::kBackwardAttr); }

/// Returns whether the value is the gradient of a parameter: only the optimizer reads it, possibly after sums of
/// several gradients.
inline bool isParameterGradient(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [](Operation *user) {
    return isUpdate(user) || (isa<AddOp>(user) && isParameterGradient(user->getResult(0)));
  });
}

/// Returns the value whose memory `value` shares: the operand of the reshapes that it is a result of.
inline Value storageOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// A run of consecutive layers of one kind: calls of one function in the forward pass, and of its backward function.
struct Run {
  CallOp first, backward;            // the first call, and the call of its backward function or null
  func::FuncOp layer, layerBackward; // the functions that the two calls name
  SmallVector<CallOp> calls;         // the calls of the forward pass
  int64_t count = 0;                 // number of layers, of which a call may stand for several
};

/// A converter of one training step with a placement (strategy `choice[i]` for node i) to ModelWork. `main` is a chain
/// of runs of layers; "level" l of an op of `main` means that it comes after l runs.
class Bridge {
public:
  Bridge(ModuleOp module, const Placement &placement, const std::vector<int> &choice,
         const CollectiveModel &collectives, const WorkOptions &options)
      : symbols(module), placement(placement), collectives(collectives), options(options),
        main(symbols.lookup<func::FuncOp>(KerfDialect::kEntryName)) {
    types.bytes = options.dtype == "f64" ? 8 : options.dtype == "f32" ? 4 : 2;
    types.product = types.other = options.dtype == "f8" ? "bf16" : options.dtype;
    types.fusedAttention = options.fusedAttention;
    types.joinsProducts = options.joinsProducts && options.dtype != "f64";
    types.fusesReductions = options.fusesReductions;
    types.fusedLoss = options.fusedLoss;
    types.lossBytes = options.lossBytes;
    if (options.dtype == "f8") {
      eightBit = eightBitProducts(module);
      types.eightBit = &eightBit;
    }
    for (size_t i = 0; i < placement.nodes.size(); ++i) {
      const PlacementNode &node = placement.nodes[i];
      const OpSharding &sharding = node.shardings[choice[i]];
      if (node.op) {
        shardingOfOp[node.op] = &sharding;
        cutsOf[node.op] = {&node.rule, &node.strategies[choice[i]]};
      }
      if (node.argument)
        shardingOfArgument[node.argument] = &sharding;
    }
  }

  /// Returns the work of one rank. Fails where a function is called but not differentiated.
  Result<ModelWork> run();

private:
  /// Finds the runs of layers in @main. Fails where a run has no backward pass.
  Status findRuns();
  /// Sets `dependsOnTrained`.
  void findTrained();
  /// Sets `level`.
  void placeMainOps();
  /// Adds the kernels and collectives of the ops that @main's forward pass has before, between and after the runs.
  void forwardOfMain();
  /// Adds the kernels, collectives and saved activations of the ops that @main's backward pass has between the runs.
  void backwardOfMain();
  /// Adds the work of one layer of `run` to its segment of the chain.
  void addLayer(Run &run, ChainSegment &chainSegment);
  /// Returns the pipeline part of each op in `dependsOnTrained`, as kerf-assign-tasks assigns parts.
  DenseMap<Operation *, int64_t> partsOfOps();
  /// Sets ModelWork::receivedBytes: a value is sent once to each part that needs it.
  void findReceivedBytes();
  /// A value that the forward pass of a layer saves for the backward pass.
  struct SavedValue {
    Value computed;   // the value in the layer's function
    Value inBackward; // the argument of the backward function that receives it
  };
  /// Returns whether an operand of a layer's call is the residual stream, which the layer before computes.
  static bool isStream(Run &run, Value outer) {
    return outer.getType() == run.first.getResult(0).getType() && !isa<BlockArgument>(outer);
  }
  /// Returns the values that a layer of the run saves: its input, and values that it computes.
  std::vector<SavedValue> savedValues(Run &run);
  /// Returns the shardings in which a layer may save `outer`, which its backward function receives as `inner`: all in
  /// which the forward pass has the value and that take the same memory. Empty where the backward has to reshard it.
  std::vector<Sharding> savedShardings(Run &run, Value outer, Value inner) const;
  /// Makes the savedShardings of all values that a layer saves available to its backward function.
  void setSavedShardings(Run &run);
  /// Returns those of the saved values that are cheaper to recompute in the kernels that read them, as computed in the
  /// layer and as received by its backward function.
  llvm::DenseSet<Value> recomputedValues(const std::vector<SavedValue> &all) const;
  /// Sets `pointwiseOps` of a layer.
  void findPointwiseOps(Run &run, const std::vector<SavedValue> &all);
  /// Sets `recomputedByOf` from a plan's decisions about single ops, and adds values that are saved because of them.
  void pinRecomputation(Run &run, const std::vector<SavedValue> &all, Segment &segment);
  /// Adds the activations that a layer saves, except `recomputed`, to its segment.
  void addLayerActivations(Run &run, const std::vector<SavedValue> &all, const llvm::DenseSet<Value> &recomputed,
                           Segment &segment, const std::vector<Operation *> &weightOps);
  /// Returns the bytes of the copies of a saved value that the backward pass reads on one rank: one with 8 bits an
  /// element for products with 8-bit factors, one in the value's type for other ops.
  double savedBytes(const SavedValue &one) const;
  /// Adds the activations that the ops of @main at one level save for the backward pass.
  void addMainActivations(size_t level, Segment &segment, const std::vector<Operation *> &weightOps);
  /// Returns the plan's axes along which ranks have copies of the parameter and partial sums of its gradient.
  std::vector<AxisRef> axesOfCopies(BlockArgument parameter, Value gradient) const;
  /// Adds all trained parameters to the segments that use them.
  void addParameters();
  /// Sets the model FLOP and the tokens of a step.
  void addTotals();

  /// Returns the sharding in which the producer of the value leaves it.
  const Sharding &shardingOf(Value value) const;
  /// Returns the shape of one rank's shard of the value.
  Shape localOf(Value value) const { return localShape(shapeOf(value), shardingOf(value)); }
  /// Returns the bytes of one rank's shard of the value.
  double localBytes(Value value) const {
    return static_cast<double>(elementsOf(localOf(value))) * elementBytes(value, types);
  }
  /// Returns the shardings in which `value` is available so far. The first one is that of its producer.
  std::vector<Sharding> &shardingsOf(Value value);
  /// Adds to `pass` the collectives that bring `value` into the sharding `wanted`, from the available sharding from
  /// which they are cheapest, and makes `wanted` available. `pass` null: nothing is added. `byProduct`: a product
  /// reads the result. `eightBitFactor`: the 8-bit copy of the value is moved.
  void addReshard(Value value, const Sharding &wanted, PassWork *pass, PassKind kind, bool byProduct = false,
                  bool eightBitFactor = false);
  /// Adds the collectives that bring the operands of `op` into the shardings that its strategy needs.
  void addOperandReshards(Operation *op, PassWork &pass, PassKind kind);
  /// Returns the plan's axes that these axes of the placement's mesh stand for; nothing where one of
  /// them counts microbatches.
  std::optional<std::vector<AxisRef>> planAxes(ArrayRef<AxisRef> axes) const;
  /// Returns the plan's axes by which the keys and values of attention are sharded along the sequence, which makes it
  /// ring attention; empty where they are not.
  std::vector<AxisRef> ringOf(Operation *attention) const;
  /// Returns the bytes of one rank's block of keys and values.
  double keyValueBytes(Operation *attention) const;
  /// Returns the bytes that ring attention needs besides its operands and results; 0 if it is none.
  double ringBytes(AttentionOp attention) const;
  /// Adds the collectives by which ranks that hold parts of a product's 8-bit factors agree on the magnitudes.
  void addMagnitudes(Operation *product, PassWork &pass);
  /// Adds the messages of ring attention to `pass`.
  void addRing(Operation *attention, PassWork &pass) const;
  /// Returns the function by which a KernelBuilder gets local shapes.
  LocalShape localShapes() const {
    return [this](Operation *op, bool isResult, unsigned i) {
      const OpSharding &sharding = *shardingOfOp.lookup(op);
      return isResult ? localShape(shapeOf(op->getResult(i)), sharding.results[i])
                      : localShape(shapeOf(op->getOperand(i)), sharding.operands[i]);
    };
  }
  /// Returns the function by which a KernelBuilder gets the text of an op's strategy.
  CutsOf cuts() const;
  /// Adds the kernels and collectives of `ops` to `pass`. `weights` is the pass for gradients of weights that an op of
  /// this pass computes as well; null in the forward pass and in the weights' own pass.
  void addOps(KernelBuilder &kernels, const std::vector<Operation *> &ops, PassWork &pass, PassWork *weights,
              PassKind kind);
  /// Adds the saved mask and the backward kernel of dropout on the op's operand, where training has it. `modes` are
  /// those under which the op runs again.
  void addDropout(Operation *op, RecomputeModes modes, Segment &segment) const;
  /// Returns the largest number of bytes that results of `ops` occupy at once, without gradients of parameters.
  double workspaceBytes(const std::vector<Operation *> &ops, const KernelBuilder &kernels) const;
  /// Returns the bytes of gradients that products of the weight gradient read and that the input gradient computes
  /// (`inputOps`) or receives (`given`).
  double pendingBytes(const std::vector<Operation *> &weightOps, const llvm::SmallPtrSetImpl<Operation *> &inputOps,
                      ArrayRef<Value> given) const;

  SymbolTable symbols;
  const Placement &placement;
  const CollectiveModel &collectives;
  const WorkOptions &options;
  func::FuncOp main;
  KernelTypes types;
  EightBitProducts eightBit; // where the type is f8
  DenseSet<Value> agreed;    // factors whose magnitude the ranks have agreed on
  DenseMap<Operation *, const OpSharding *> shardingOfOp;
  DenseMap<Operation *, std::pair<const Rule *, const Strategy *>> cutsOf;
  DenseMap<BlockArgument, const OpSharding *> shardingOfArgument;
  DenseMap<Value, std::vector<Sharding>> availableShardings; // see shardingsOf
  llvm::SmallPtrSet<Operation *, 32> forWeights;             // ops that compute gradients of weights
  /// The recomputation modes under which each op of a layer runs again; empty where the plan decides about
  /// no single op.
  DenseMap<Operation *, RecomputeModes> recomputedByOf;
  DenseSet<Operation *> pointwiseOps; // of the layer at hand, which pointwise recomputation runs again
  std::vector<Run> runs;
  DenseMap<Operation *, size_t> runOf;          // index of the run that a call, forward or backward, belongs to
  llvm::DenseSet<Operation *> dependsOnTrained; // forward ops of @main, and calls, that depend on a trained argument
  DenseMap<Operation *, size_t> level;          // for ops of @main: the number of runs before the op
  ModelWork work;
};

} // namespace kerf::bridge
