// SPDX-License-Identifier: Apache-2.0
// Chooses how each gradient of a backward pass is synchronized, so that the last sum is there as early as possible.
// The choice is judged by a timeline (Timeline.h), and the answer is often that nothing is compressed.
//
// Variables: choice[t], one of the options of gradient t. Objective: F(choice) = the end of the communication stream.
// A lower bound of F for every choice comes from two sums that no order of the streams can avoid:
//   a. for each layer j: the layers up to j have run before any gradient from j on is sent, so
//      F >= body[0..j] + sum over t in layers >= j of wire[t]
//   b. all layers and all codecs run on one compute stream: F >= body[0..end] + sum over all t of compute[t]
// For 0 <= lambda <= 1 the mean lambda a + (1 - lambda) b falls apart into one minimum for each gradient.
#pragma once

#include "kerf/Compression/Timeline.h"
#include "kerf/Support/Result.h"

namespace kerf::compression {

/// One way to synchronize a gradient, with its costs.
struct SyncOption {
  SyncChoice choice;
  SyncCost cost;
  double ratio = 1; // f32 bytes divided by bytes of the payload; 1: not compressed
};

/// A gradient of the backward pass and the options for it.
struct PlanGradient {
  std::string name;                // name of the parameter
  SyncGradient gradient;           // shape and form
  double bytes = 0;                // bytes without compression
  size_t layer = 0;                // index of the layer that computes it
  std::vector<SyncOption> options; // the first one applies without planning: not compressed, or what a user pins
};

/// A backward pass whose gradients are to be planned.
struct PlanProblem {
  std::vector<StreamLayer> layers;     // in the order of the pass, without costs of gradients and without repeats
  std::vector<PlanGradient> gradients; // in the order of their layers
  StreamRules rules;
};

/// The codecs that a plan may use, and the limits of the user.
struct CodecLimits {
  std::vector<const CodecRecord *> codecs; // codecs that may be chosen, in the order of preference among equals
  double largestRatio = 0;                 // largest ratio of f32 bytes to payload bytes; 0: any
  int64_t firstStep = 0;                   // first step that compresses
  bool inPieces = true;                    // whether gradients may be cut into pieces
  bool hierarchy = true;                   // whether the ranks of a node may sum plainly first
};
/// Returns the codecs that a plan may choose if the user names none (CodecRecord::plannedByDefault). All of them are
/// unbiased, so that they suit every optimizer.
std::vector<const CodecRecord *> usualCodecs();

/// Returns the option that does not compress.
SyncOption plainOption(const SyncGradient &gradient, const SyncNetwork &network);
/// Returns all options of a gradient: not compressed, and every possible combination of codec, scheme and hierarchy
/// with the number of pieces that suits the gradient best. `curveOf` returns the speed of a codec.
std::vector<SyncOption> allOptions(const SyncGradient &gradient, const SyncNetwork &network, const CodecLimits &limits,
                                   const std::function<CodecCurve(const CodecRecord &)> &curveOf);
/// Returns the options without those that another one beats in every cost and in the ratio.
std::vector<SyncOption> withoutBeaten(std::vector<SyncOption> options);

/// For each gradient, the index of its option.
using OptionIndices = std::vector<int>;

/// Returns F: the seconds from the start of the pass until the last sum is there.
double finishSeconds(const PlanProblem &problem, const OptionIndices &choice);
/// Returns a lower bound of finishSeconds over all choices (formulas a and b above).
double finishLowerBound(const PlanProblem &problem);

/// The result of a planner.
struct PlannedGradients {
  OptionIndices choice;
  double seconds = 0;      // F of the choice
  double plainSeconds = 0; // F without compression
  int64_t evaluations = 0; // number of timelines that were computed
};

/// Settings of planGradients.
struct PlannerOptions {
  double leastGain = 0;             // seconds that compression must save, or else nothing is compressed
  int64_t mostEvaluations = 60'000; // timelines after which the local search ends
};

/// Plans the gradients: the best of all-or-nothing plans, plans by size and by position, relaxations of the lower bound
/// and Espresso's plan, improved by local search until no change of one gradient (or of two, for small problems) helps.
/// Gradients whose compression does not make F smaller stay uncompressed, and every gradient gets the option with the
/// least loss among those with the same F.
PlannedGradients planGradients(const PlanProblem &problem, const PlannerOptions &options = {});
/// Algorithm 1 of Espresso (Wang et al., EuroSys 2023): one pass over the gradients from the largest to the smallest,
/// without those that are sent before the communication stream last waits.
PlannedGradients planByEspresso(const PlanProblem &problem);
/// Compresses every gradient of at least `leastBytes` with its option of this codec, scheme and hierarchy (the pieces
/// may differ), where it has one.
OptionIndices chooseBySize(const PlanProblem &problem, const SyncChoice &like, double leastBytes);

/// Compresses every gradient that has several options with the scheme and hierarchy that give the least F for all
/// together, whether or not this makes F smaller than without compression.
OptionIndices chooseAlways(const PlanProblem &problem);

/// Returns the bytes of the gradients that are compressed, divided by all bytes.
double compressedShare(const PlanProblem &problem, const OptionIndices &choice);

} // namespace kerf::compression
