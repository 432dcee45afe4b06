// SPDX-License-Identifier: Apache-2.0
// What one training step does, as plain data: the kernels, collectives and tensors of each part of the pipeline on one
// of its ranks, with local sizes. The program's bridge writes it, the simulator reads it (Simulator.h).
//
//   part "first"   : segment "embedding" x 1, segment "layer" x 12
//   part "middle"  : segment "layer" x 12
//   part "last"    : segment "layer" x 12, segment "head" x 1       8 stages: first, middle x 6, last
//
// Parts and segments that are alike are told once; nothing here grows with the ranks, the layers or the microbatches.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Support/PlanWords.h"
#include "kerf/Support/Work.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// Under which recomputation of its layer an op runs again, and what it made is dropped until then.
enum class RunAgain {
  Always,    // as a plan says of the op
  Selective, // attention's core: scores, softmax, dropout
  Full,      // all else
  Never,     // as a plan says of the op
};
inline bool runsAgain(RunAgain op, Recompute layer) {
  return static_cast<int>(op) <= static_cast<int>(layer == Recompute::Offload ? Recompute::None : layer);
}

struct Kernel {
  std::string name;
  Work work;
  RunAgain again = RunAgain::Full;
  std::string cuts = {}; // "model: n": the factors that the ranks of a microbatch share; "" where each does the same
};

/// Pieces in which a product and a collective next to it take turns, where a plan asks for that.
inline constexpr int64_t kProductPieces = 4;

/// A collective of a pass (tensor, sequence, context or expert parallelism).
struct PassCollective {
  std::string name;
  Collective kind = Collective::AllReduce;
  std::vector<AxisRef> axes;
  double bytes = 0; // as CollectiveModel::seconds counts them
  RunAgain again = RunAgain::Full;
  /// The pass has kernels that do not need its result: with tensor overlap it runs beside them. A sum of an input
  /// gradient does, as the weight gradient does not wait for it.
  bool independent = false;
  /// So many follow each other: blocks that ranks pass on round a ring.
  int64_t hops = 1;
  /// Each hop runs beside a share of the pass's attention kernels, which work on hops + 1 blocks in turn.
  bool besideAttention = false;
  /// Gathers what a product waits for, or sums what one makes: with products overlap they take turns.
  bool besideProduct = false;
  bool operator==(const PassCollective &) const = default;
};

struct PassWork {
  std::vector<Kernel> kernels;
  std::vector<PassCollective> collectives;
};

/// A tensor that forward leaves for backward, of one microbatch, on one rank.
struct SavedTensor {
  std::string name;
  double bytes = 0;
  RunAgain again = RunAgain::Full;  // that drops it
  bool forWeights = true;           // stays until the weight gradient; false: free after the input gradient
  Recompute from = Recompute::None; // less keeps what it is made of instead, or needs neither
};

struct ParameterGroup {
  std::string name;
  double elements = 0; // on one rank, after tensor and expert parallelism, before optimizer sharding
  /// Over which its gradients are summed and, with optimizer sharding, its states are cut: data (and context, ...)
  /// axes.
  std::vector<AxisRef> reduceAxes;
  /// Floating-point operations of the products in the optimizer's rule (Muon's) on one rank, cut as `elements` is.
  double updateFlops = 0;
};

/// Optimizer sharding over part of the ranks: the axes that cut a group's states, and those over which ranks hold
/// copies, whose shares of its gradients are summed as well.
struct ShardAxes {
  std::vector<AxisRef> cut, copies;
};
/// `shardingAxes` are whole axes and inner parts of axes; none: all of `reduceAxes` cut.
ShardAxes shardAxes(const std::vector<AxisRef> &reduceAxes, const std::optional<std::vector<AxisRef>> &shardingAxes);

/// A run of layers that are alike, or what stands before, between and after them.
struct Segment {
  std::string name;
  int64_t repeat = 1;
  /// Segments of the same number, wherever they stand, run the same passes: they are priced once. -1: not known.
  int link = -1;
  /// Of one repeat, one microbatch. A backward that is not split runs both gradients.
  PassWork forward, inputGradient, weightGradient;
  std::vector<SavedTensor> saved;
  double pendingBytes = 0;   // gradients that the input gradient leaves for the weight gradient, when they are split
  double inputBytes = 0;     // all that full recomputation keeps
  bool recomputable = false; // recomputation applies: layers, not the loss
  double workspaceBytes = 0; // held beside saved tensors while a pass of it runs: gradients of activations, f32 logits
  std::vector<ParameterGroup> parameters;
  /// Those of `parameters` of which ranks hold copies whose gradients are sums in part (key/value heads with fewer of
  /// them than ranks): summed once a step, here over `reduceAxes`, before all copies go the way of the others.
  std::vector<ParameterGroup> copied;
};

struct Part {
  std::string name;
  std::vector<Segment> segments; // in forward order
};

/// Between neighbouring stages, of one microbatch: what one rank sends forward (and its gradient backward), and what
/// the receiver then still gathers, where senders that hold the same values send a share each.
struct StageMessage {
  std::vector<AxisRef> axes;
  double bytes = 0;
  std::vector<PassCollective> afterReceive;
  bool operator==(const StageMessage &) const = default;
};

struct StepWork {
  std::vector<Part> parts;
  /// Which part chunk c of stage s is: part[s][c].
  std::vector<std::vector<int>> part;
  StageMessage message;
  /// Instead, where they differ: activations into chunk c of stage s at c * stages + s, as if the part before had sent
  /// all of it; and gradients back into it.
  std::vector<StageMessage> messagesInto = {}, messagesBackInto = {};
  /// Between neighbouring parts.
  const StageMessage &messageBetween(int64_t from, int64_t to) const {
    return messagesInto.empty() ? message : from < to ? messagesInto[to] : messagesBackInto[to];
  }
  /// Gradients of parameters that the first and the last stage share (tied embeddings), elements on one rank.
  double tiedElements = 0;
  /// Of the whole step, all ranks: for tokens per second and utilization.
  double tokens = 0;
  double modelFlops = 0;
  std::string dtype = "bf16"; // that the peak of utilization is of
};

} // namespace kerf
