// SPDX-License-Identifier: Apache-2.0
// How one gradient is summed over its ranks, and what that costs: the codec, the scheme of messages, the number of
// pieces and the hierarchy. docs/compression-planning.md derives the formulas.
//
//   two-stage, int8, 4 ranks:   encode - all-to-all - decode 4, add, encode - all-gather - decode
//   the same in 2 pieces:       the second piece is encoded while the first one is on the wire
#pragma once

#include "kerf/Compression/Codec.h"
#include "kerf/Support/Collectives.h"
#include "kerf/Support/PlanWords.h"

#include <functional>
#include <optional>

namespace kerf::compression {

/// The messages that sum a gradient. The first three leave the sum on every rank.
enum class SyncScheme {
  AllReduce,     // an all-reduce of the payload; the codec must be summable
  AllGather,     // every rank gathers the payloads of all ranks and decodes them
  TwoStage,      // each rank decodes and adds one part, encodes the sum again, and all ranks gather the parts
  ReduceScatter, // each rank gets its part of the sum only, as sharded optimizers need
};

/// How one gradient is synchronized: a value of plan.json's "compression".
struct SyncChoice {
  const CodecRecord *codec = nullptr; // null: not compressed, and the other fields have no effect
  SyncScheme scheme = SyncScheme::AllReduce;
  int64_t pieces = 1;         // number of pieces whose encoding, transfer and decoding overlap
  bool hierarchy = false;     // whether ranks of one node first sum plainly, and only messages between nodes are coded
  bool errorFeedback = false; // whether the loss of a step is added to the gradient of the next one
  int64_t firstStep = 0;      // number of the first step that compresses
  bool operator==(const SyncChoice &) const = default;
};

/// The ranks that take part in a collective of a hierarchical scheme.
enum class Reach {
  All,   // all ranks that sum the gradient
  Inner, // those of one node
  Outer, // one rank of each node; as many such groups communicate at the same time as a node has members
};

/// The network between the ranks that sum a gradient.
struct SyncNetwork {
  int64_t members = 1;      // number of ranks that sum the gradient
  int64_t innerMembers = 1; // number of these ranks in one node
  /// Returns the seconds of a collective. `bytes` are the bytes of one rank: its output for an all-gather, else its
  /// input.
  std::function<double(Collective collective, Reach reach, double bytes)> seconds;
  /// Returns whether some, but not all, of the ranks share a node.
  bool hierarchical() const { return innerMembers > 1 && innerMembers < members; }
};

/// One level of a network for linkNetwork().
struct Link {
  double bandwidth = 0; // bytes/s of one rank in one direction
  double latency = 0;   // seconds of one message
};
/// Returns a network of `nodes` nodes with `innerMembers` ranks each. The ranks of a node share `nodeBandwidth` bytes/s
/// to other nodes. Collectives take the latency of their hops and the seconds on the slowest link (Thakur, Rabenseifner
/// & Gropp 2005).
SyncNetwork linkNetwork(int64_t nodes, int64_t innerMembers, Link inner, Link outer, double nodeBandwidth);

/// The gradient of a parameter, as far as its synchronization is concerned.
struct SyncGradient {
  std::vector<int64_t> shape; // shape on one rank
  double plainWidth = 4;      // bytes of one element that is not compressed
  bool sharded = false;       // whether each rank needs its part of the sum only (ReduceScatter)
  /// Elements that share a message with this gradient, itself included; a small gradient pays its share of the message.
  double elementsTogether = 0;
};

/// The resource that works on a stage of a synchronization.
enum class StageOn { Compute, Wire, InnerWire };
/// One stage of the synchronization of one piece.
struct SyncStage {
  StageOn on = StageOn::Wire;
  double seconds = 0;
};

/// Returns the seconds of a chain of stages that `pieces` pieces pass through: the first piece passes all stages, and
/// every further piece takes as long as the busiest of compute, wire and inner wire works on one piece. With every
/// stage on a resource of its own this is T(K) = sum of s_i(m/K) + (K - 1) max of s_i(m/K).
double pipelinedSeconds(std::span<const SyncStage> stagesOfPiece, int64_t pieces);

/// The seconds of one synchronization as the timeline needs them.
struct SyncCost {
  double before = 0; // seconds of encoding on the compute stream before and beside the first messages
  double first = 0;  // the part of `before` after which the first message can leave
  double wire = 0;   // seconds on the communication stream, waits for the compute stream between messages included
  double after = 0;  // seconds of decoding, adding and encoding again on the compute stream
  double last = 0;   // the part of `after` that follows the last message
  /// Returns the seconds on the compute stream.
  double compute() const { return before + after; }
};

/// Returns the stages of one of `pieces` pieces of the gradient under `choice`. `curve` is the speed of its codec.
std::vector<SyncStage> stagesOf(const SyncChoice &choice, int64_t pieces, const SyncGradient &gradient,
                                const SyncNetwork &network, const CodecCurve &curve);
/// Returns the cost of synchronizing the gradient under `choice`.
SyncCost syncCost(const SyncChoice &choice, const SyncGradient &gradient, const SyncNetwork &network,
                  const CodecCurve &curve);
/// Returns the seconds of one synchronization that has compute and network for itself.
double soloSeconds(const SyncChoice &choice, const SyncGradient &gradient, const SyncNetwork &network,
                   const CodecCurve &curve);

/// Returns whether a gradient can be synchronized so: whether codec, scheme and gradient agree with each other.
/// `why` gets the reason if they do not.
bool isPossible(const SyncChoice &choice, const SyncGradient &gradient, const SyncNetwork &network,
                std::string *why = nullptr);

/// Returns the scheme of a codec where a plan states none and no optimizer is sharded: all-reduce if payloads can be
/// summed, two-stage if they can be cut, else all-gather.
SyncScheme usualScheme(const CodecRecord &codec);

inline constexpr int64_t kMostPieces = 16; // most pieces that a planner chooses
/// Returns the number of pieces, a power of two up to kMostPieces, with which the synchronization alone takes the least
/// time. Pieces keep the codec's chunks whole on every rank.
int64_t bestPieces(SyncChoice choice, const SyncGradient &gradient, const SyncNetwork &network,
                   const CodecCurve &curve);
/// Returns the number of pieces that minimizes T(K) where stage i takes a_i + b_i x for a piece of x bytes of `bytes`,
/// and the slowest stage is `slowest`: K = sqrt((sum of b_i - b_slowest) * bytes / a_slowest), at least 1.
double idealPieces(std::span<const std::pair<double, double>> startAndPerByte, size_t slowest, double bytes);

} // namespace kerf::compression

namespace kerf {
template <> struct PlanWords<compression::SyncScheme> {
  static constexpr std::array<std::string_view, 4> words = {"all-reduce", "all-gather", "two-stage", "reduce-scatter"};
};
} // namespace kerf
