// SPDX-License-Identifier: Apache-2.0
// The options of one gradient: which codecs, schemes and hierarchies are possible, and what each costs.
#include "kerf/Compression/Planner.h"

#include <algorithm>

namespace kerf::compression {

namespace {

/// Returns whether `one` costs at least as much as `other` in every part and loses at least as much.
bool isBeaten(const SyncOption &one, const SyncOption &other) {
  const SyncCost &a = one.cost, &b = other.cost;
  return a.before >= b.before && a.first >= b.first && a.wire >= b.wire && a.after >= b.after && a.last >= b.last &&
         one.ratio >= other.ratio;
}

} // namespace

std::vector<const CodecRecord *> usualCodecs() {
  std::vector<const CodecRecord *> usual;
  for (const CodecRecord &codec : codecs())
    if (codec.plannedByDefault)
      usual.push_back(&codec);
  return usual;
}

SyncOption plainOption(const SyncGradient &gradient, const SyncNetwork &network) {
  return {{}, syncCost({}, gradient, network, {}), 1};
}

std::vector<SyncOption> allOptions(const SyncGradient &gradient, const SyncNetwork &network, const CodecLimits &limits,
                                   const std::function<CodecCurve(const CodecRecord &)> &curveOf) {
  std::vector<SyncOption> options = {plainOption(gradient, network)};
  if (network.members <= 1)
    return options;
  for (const CodecRecord *codec : limits.codecs) {
    if (!accepts(*codec, gradient.shape))
      continue;
    double ratio = compressionRatio(*codec, gradient.shape);
    // A payload as large as the gradient itself saves nothing: bf16 of gradients that have 16 bits anyway.
    if (ratio * gradient.plainWidth <= 4 || (limits.largestRatio > 0 && ratio > limits.largestRatio))
      continue;
    CodecCurve curve = curveOf(*codec);
    for (SyncScheme scheme :
         {SyncScheme::AllReduce, SyncScheme::TwoStage, SyncScheme::AllGather, SyncScheme::ReduceScatter})
      for (bool hierarchy : {false, true}) {
        SyncChoice choice{codec, scheme, 1, hierarchy, codec->biased, limits.firstStep};
        if ((scheme == SyncScheme::AllGather && codec->summable) || (hierarchy && !limits.hierarchy) ||
            !isPossible(choice, gradient, network))
          continue;
        choice.pieces = limits.inPieces ? bestPieces(choice, gradient, network, curve) : 1;
        options.push_back({choice, syncCost(choice, gradient, network, curve), ratio});
      }
  }
  return options;
}

std::vector<SyncOption> withoutBeaten(std::vector<SyncOption> options) {
  std::vector<SyncOption> kept = {options.front()};
  for (size_t i = 1; i < options.size(); ++i) {
    bool beaten = false;
    for (size_t j = 0; j < options.size() && !beaten; ++j) // of two equal options, the earlier one stays
      beaten = j != i && isBeaten(options[i], options[j]) && (j < i || !isBeaten(options[j], options[i]));
    if (!beaten)
      kept.push_back(options[i]);
  }
  return kept;
}

} // namespace kerf::compression
