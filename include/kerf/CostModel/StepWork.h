// SPDX-License-Identifier: Apache-2.0
// The work of one training step as plain data: the kernels, collectives and tensors of each part of the pipeline, with
// the local sizes of one rank. The compiler writes it, and the simulator (Simulator.h) turns it into seconds and bytes.
//
//   part "first"   : segment "embedding" x 1, segment "layer" x 12
//   part "middle"  : segment "layer" x 12
//   part "last"    : segment "layer" x 12, segment "head" x 1       8 stages: first, middle x 6, last
//
// Identical parts and segments are stored once, so that the size of the data does not grow with the number of ranks,
// layers or microbatches.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Support/PlanWords.h"
#include "kerf/Support/Work.h"
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// A set of recomputation modes of a layer, with one bit for each value of Recompute but Offload. Where it belongs to
/// an op, the layer recomputes the op under these modes, and drops the op's result after the forward pass.
enum class RecomputeModes : uint8_t {
  Never = 0,           // under no mode, because a plan names the op
  Attention = 0b10010, // under "selective" and "full": attention in one kernel
  Scores = 0b11010,    // under "selective", "except-attention" and "full": scores, softmax, dropout as kernels
  Pointwise = 0b11100, // under "pointwise", "except-attention" and "full": norms, activations
  Context = 0b10000,   // under "full" only: what attention in one kernel gives to the next product
  Others = 0b11000,    // under "except-attention" and "full": all other ops
  Always = 0b11111,    // under every mode, because a plan names the op
};
constexpr RecomputeModes operator|(RecomputeModes a, RecomputeModes b) {
  return static_cast<RecomputeModes>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Returns the modes of `a` that are not in `b`.
constexpr RecomputeModes without(RecomputeModes a, RecomputeModes b) {
  return static_cast<RecomputeModes>(static_cast<unsigned>(a) & ~static_cast<unsigned>(b));
}
/// Returns whether the set holds a layer's mode. Nothing is recomputed under Offload but what is recomputed always.
constexpr bool contains(RecomputeModes modes, Recompute layer) {
  return static_cast<unsigned>(modes) >> static_cast<unsigned>(layer == Recompute::Offload ? Recompute::None : layer) &
         1;
}

/// Returns whether a layer of this mode recomputes from its input, which stays saved for that.
constexpr bool keepsInput(Recompute layer) { return layer == Recompute::ExceptAttention || layer == Recompute::Full; }

/// One kernel of a pass, on one rank. (The function that executes a kernel is kerf::runtime::Kernel.)
struct KernelWork {
  std::string name;                                     // name in reports
  Work work;                                            // operations, bytes and shape
  RecomputeModes recomputedBy = RecomputeModes::Others; // recomputation modes that recompute the kernel
  bool onlyRecomputes = false; // whether the pass itself lacks the kernel, because another kernel does its work there
  /// The factors of the op that mesh axes cut among the ranks of one microbatch, for example "model: n"; empty if each
  /// of these ranks does the same work.
  std::string cuts = {};
  /// Returns whether the pass runs the kernel; with `again`, whether a layer of this mode runs it when it recomputes
  /// the pass.
  bool runs(std::optional<Recompute> again) const { return again ? contains(recomputedBy, *again) : !onlyRecomputes; }
};

/// Number of pieces into which a matrix product and an adjacent collective are split so that they overlap, if a plan
/// requests it (Overlap::products).
inline constexpr int64_t kProductPieces = 4;

/// A collective within a pass, as tensor, sequence, context and expert parallelism need it.
struct PassCollective {
  std::string name;                        // cause of the collective, in reports
  Collective kind = Collective::AllReduce; // communication pattern
  std::vector<AxisRef> axes;               // mesh axes of the process groups
  double bytes = 0;                        // bytes of one run on a rank: of the output for all-gather, else input
  RecomputeModes recomputedBy = RecomputeModes::Others; // recomputation modes that run the collective a second time
  /// Whether the kernels of the other half of the backward do not depend on the result, so that the collective can
  /// overlap with them (Overlap::tensor). Example: the sum of a product's input gradient, which the gradient of the
  /// product's weight does not need.
  bool independent = false;
  /// Number of times the collective runs in sequence, for example to pass blocks around a ring of ranks.
  int64_t hops = 1;
  /// Whether each hop overlaps with attention kernels of the pass, which process hops + 1 blocks one after the other.
  bool overlapsAttention = false;
  /// Whether the collective gathers the operand of a matrix product or sums its result, so that both can be split into
  /// pieces that overlap (Overlap::products).
  bool overlapsProduct = false;
  /// Whether the collective brings tokens to their experts, or results back (Overlap::experts).
  bool exchangesTokens = false;
  bool operator==(const PassCollective &) const = default;
};

/// The tensors that a rank of ring attention holds besides its own while the backward of attention runs. The default
/// is two blocks of keys and values (the one in use and the arriving one), and two blocks of their gradients.
struct RingMemory {
  bool gathers = false;      // whether the blocks of all ranks of the ring are gathered at once, from a copy of its own
  bool repeatsHeads = false; // whether a block has a copy of a key/value head for each of its query heads
  bool wideGradients = false; // whether gradients are f32: of the queries once, and of a block three times (the sum,
                              // the one on its way out, and the arriving one)
  /// Returns the bytes for blocks and queries of `blockBytes` and `queryBytes`, whose elements have `elementBytes`, on
  /// a ring of `ranks` ranks.
  double bytes(double ranks, double blockBytes, double queryBytes, double elementBytes) const {
    double wide = std::max(1.0, 4 / elementBytes);
    return (gathers ? ranks + 1 : 2) * blockBytes +
           (wideGradients ? wide * (3 * blockBytes + queryBytes) : 2 * blockBytes);
  }
};

/// The passes over a segment. The gradients of its input and of its weights together are its backward.
enum class PassKind { Forward, InputGradient, WeightGradient };

/// The kernels and collectives of one pass over one segment.
struct PassWork {
  std::vector<KernelWork> kernels;         // kernels of the pass, in execution order
  std::vector<PassCollective> collectives; // collectives of the pass
};

/// A tensor that the forward pass saves for the backward pass; its size is that of one microbatch on one rank.
struct SavedTensor {
  std::string name;                                     // name in reports
  double bytes = 0;                                     // bytes on one rank
  RecomputeModes recomputedBy = RecomputeModes::Others; // recomputation modes that drop the tensor and recompute it
  bool neededForWeightGradient = true; // whether the weight gradient reads it; false: the input gradient only
  /// The recomputation modes under which the tensor exists. Under the others the backward reads the values from which
  /// the tensor would be computed, or needs neither.
  RecomputeModes existsUnder = RecomputeModes::Always;
};

/// Parameters of a segment whose gradients are summed over the same mesh axes.
struct ParameterGroup {
  std::string name;    // name in reports
  double elements = 0; // number of elements on one rank, after tensor and expert parallelism, before optimizer sharding
  /// Mesh axes over which the gradients are summed and, with optimizer sharding, the states are cut: the data axis, and
  /// for example the context axis. Empty: no other rank has these parameters.
  std::vector<AxisRef> reduceAxes;
  /// Floating-point operations of matrix products in the optimizer's update (Muon) on one rank,
  /// for `elements` elements.
  double updateFlops = 0;
  std::vector<int64_t> shape = {}; // shape of the parameter on one rank; empty: not known
  std::string parameter = {};      // name of the parameter (of the largest one, if the group is a whole layer)
  bool isTable = false;            // whether the parameter is a table from which rows are looked up (an embedding)
};

/// The axes of optimizer sharding (ZeRO) for one parameter group.
struct ShardAxes {
  std::vector<AxisRef> cut; // axes over which the states are cut
  /// Axes along which ranks keep copies of the same shard. Gradients are summed over these axes too.
  std::vector<AxisRef> copies;
};
/// Returns the axes of optimizer sharding for parameters whose gradients are summed over `reduceAxes`.
/// `shardingAxes` lists the axes (or inner sub-axes) over which states may be cut; if it is not set, they are cut
/// over all `reduceAxes`.
ShardAxes shardAxes(const std::vector<AxisRef> &reduceAxes, const std::optional<std::vector<AxisRef>> &shardingAxes);

/// The work of a run of identical layers, or of what comes before, between or after the layers.
struct Segment {
  std::string name;   // name in reports: "embedding", "layer", "head"
  int64_t repeat = 1; // number of layers of the run
  /// Index of the segment in ModelWork::chain; -1: not known. Segments with the same index run identical passes, so
  /// that these are priced only once.
  int chainIndex = -1;
  /// Passes of one layer for one microbatch. A backward that is not split runs both gradients.
  PassWork forward, inputGradient, weightGradient;
  std::vector<SavedTensor> saved; // tensors of one layer that forward saves for backward
  /// Bytes of gradients that the input gradient of one layer saves for the weight gradient, if the backward is split.
  double pendingBytes = 0;
  double inputBytes = 0;     // bytes of the layer's input, the only tensor that full recomputation keeps
  bool recomputable = false; // whether recomputation applies; true for layers, false for example for the loss
  /// Bytes of temporary tensors beside the saved ones while a pass of the layer runs: gradients of
  /// activations, f32 logits.
  double workspaceBytes = 0;
  std::vector<ParameterGroup> parameters; // parameters of one layer
  /// The subset of `parameters` that several ranks copy although each copy's gradient is only a partial sum (key/value
  /// heads, if there are fewer heads than ranks). Their gradients are summed over `reduceAxes` once per step, before
  /// the usual reduction.
  std::vector<ParameterGroup> copied;
};

/// The work of one chunk of a pipeline stage, for one microbatch on one rank.
struct Part {
  std::string name;              // name in reports: "first", "middle", "last"
  std::vector<Segment> segments; // segments of the chunk, in forward order
};

/// A message between neighbouring pipeline stages for one microbatch: activations forward, or their gradients backward.
struct StageMessage {
  std::vector<AxisRef> axes; // the "stage" axes of the mesh
  double bytes = 0;          // bytes that one rank sends
  /// Collectives with which the receivers gather the message, if senders with identical values send one share each.
  std::vector<PassCollective> afterReceive;
  bool operator==(const StageMessage &) const = default;
};

/// The work of one training step on one rank of each pipeline stage.
struct StepWork {
  std::vector<Part> parts;            // the distinct parts of the pipeline
  std::vector<std::vector<int>> part; // part[s][c]: index into `parts` of the work of chunk c of stage s
  StageMessage message;               // message between any two neighbouring stages, unless the vectors below are set
  /// Messages into each part, if they differ: entry c * stages + s is the message into chunk c of stage s, with
  /// activations from the part before (`forwardMessages`) or gradients from the part after (`backwardMessages`).
  std::vector<StageMessage> forwardMessages = {}, backwardMessages = {};
  /// Returns the message from part `from` to the neighbouring part `to`; part c * stages + s is chunk c of stage s.
  const StageMessage &messageBetween(int64_t from, int64_t to) const {
    return forwardMessages.empty() ? message : from < to ? forwardMessages[to] : backwardMessages[to];
  }
  /// Number of elements, on one rank, of parameters that the first and the last stage share (tied embeddings). The two
  /// stages exchange the gradients of these parameters once per step.
  double tiedElements = 0;
  double tokens = 0;          // tokens of the global batch, for Simulation::tokensPerSecond
  double modelFlops = 0;      // floating-point operations of the model in one step on all ranks, for the utilization
  std::string dtype = "bf16"; // element type whose peak FLOP/s the model FLOPs utilization is relative to
};

} // namespace kerf
