// SPDX-License-Identifier: Apache-2.0
#include "Config/SmallModel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf::frontend {

namespace {

// Sizes of a reduced model. Most are odd, so that sharded dimensions have ranks with padding.
constexpr int64_t kTokens = 16; // tokens of a sequence for each of its shards
constexpr int64_t kHeadSize = 8, kInner = 21, kExpertInner = 13, kSharedInner = 11, kVocabulary = 61, kClasses = 11;
constexpr int64_t kQueryRank = 7, kKeyValueRank = 9, kLatentRotated = 4, kLatentKept = 5, kLatentValue = 5;
constexpr int64_t kPatchSize = 2, kPatchesASide = 4, kChannels = 3;
constexpr int64_t kExpertsARank = 2, kLeastExperts = 4, kExpertGroups = 2;
constexpr int64_t kSparePositions = 3; // rows of the position table that no token uses

class Reducer {
public:
  Reducer(TransformerModel &model, StepSize &step, const SmallSizes &sizes) : m(model), step(step), sizes(sizes) {}

  std::vector<std::string> run() {
    reduceLayers();
    reduceStep();
    reduceHeads();
    set("vocabulary", m.vocabulary, std::min(m.vocabulary, kVocabulary));
    set("classes", m.classes, std::min(m.classes, kClasses));
    set("intermediate size", m.inner, std::min(m.inner, kInner));
    m.startToken = std::min(m.startToken, m.vocabulary - 1);
    m.paddingToken = std::min(m.paddingToken, m.vocabulary - 1);
    if (m.experts)
      reduceExperts();
    return std::move(notes);
  }

private:
  void set(const char *what, int64_t &value, int64_t small) {
    if (value != small)
      notes.push_back(fmt::format("{} {} -> {}", what, value, small));
    value = small;
  }

  /// Reduces the number of layers; at least one layer of each kind remains.
  void reduceLayers() {
    if (sizes.layers >= m.layers + m.decoderLayers)
      return;
    if (m.decoderLayers) {
      int64_t decoder = sizes.layersInEachPart ? sizes.layers : std::max<int64_t>(1, sizes.layers / 2);
      set("encoder layers", m.layers, sizes.layersInEachPart ? sizes.layers : sizes.layers - decoder);
      set("decoder layers", m.decoderLayers, decoder);
      return;
    }
    bool mixed = m.denseLayers > 0 && m.denseLayers < m.layers;
    set("layers", m.layers, sizes.layers);
    set("layers without experts", m.denseLayers, mixed ? 1 : std::min(m.denseLayers, m.layers));
  }

  void reduceStep() {
    step.batch = sizes.batch;
    if (m.objective == TrainingObjective::ImageClassification) {
      set("image size", m.imageSize, std::min(m.imageSize, kPatchesASide * kPatchSize));
      set("patch size", m.patchSize, std::min(m.patchSize, std::min(m.imageSize, kPatchSize)));
      set("channels", m.channels, std::min(m.channels, kChannels));
      m.imageSize = m.imageSize / m.patchSize * m.patchSize;
      int64_t side = m.imageSize / m.patchSize;
      set("sequence", step.sequence, side * side + 1);
      return;
    }
    int64_t full = step.sequence;
    set("sequence", step.sequence, kTokens * sizes.sequenceShards);
    int64_t spare = m.maxPositions > full ? kSparePositions : 0;
    set("positions", m.maxPositions, step.sequence + spare);
    if (m.window > 0) { // the window has to remain shorter than the sequence
      double share = double(m.window) / double(full);
      set("sliding window", m.window,
          std::clamp<int64_t>(std::llround(share * double(step.sequence)), 1, step.sequence - 1));
    }
  }

  void reduceHeads() {
    int64_t group = m.heads / m.groups, shards = sizes.headShards;
    bool one = m.groups < sizes.headRanks || m.groups == 1;
    bool uneven = !one && m.groups % sizes.headRanks != 0; // some ranks have more heads than others, here too
    int64_t groups = one ? 1 : shards + uneven;
    int64_t heads = groups * std::min(group, one ? std::max<int64_t>(2, shards) : 2);
    set("heads", m.heads, heads);
    set("key/value heads", m.groups, groups);
    set("hidden size", m.hidden, heads * kHeadSize);
    int64_t rotated = 2 * int64_t(m.rotaryFrequencies.size()), full = m.headSize;
    if (m.projection == ProjectionForm::Latent) {
      set("rank of the queries' latent", m.queryRank, std::min(m.queryRank, kQueryRank));
      set("rank of the keys' and values' latent", m.keyValueRank, std::min(m.keyValueRank, kKeyValueRank));
      int64_t turned = std::min(rotated, kLatentRotated);
      set("head size", m.headSize, turned + std::min(full - rotated, kLatentKept));
      set("head size of values", m.valueSize, std::min(m.valueSize, kLatentValue));
      pickFrequencies(turned);
      return;
    }
    set("head size", m.headSize, kHeadSize);
    m.valueSize = kHeadSize;
    if (rotated > 0)
      pickFrequencies(
          std::clamp<int64_t>(2 * std::llround(double(kHeadSize / 2) * double(rotated) / double(full)), 2, kHeadSize));
  }

  /// Reduces the rotated elements of a head to `elements`; the kept frequencies are spread over those of the full
  /// model.
  void pickFrequencies(int64_t elements) {
    std::vector<double> picked;
    int64_t pairs = elements / 2, all = int64_t(m.rotaryFrequencies.size());
    for (int64_t i = 0; i < pairs; ++i)
      picked.push_back(m.rotaryFrequencies[size_t(pairs > 1 ? i * (all - 1) / (pairs - 1) : 0)]);
    int64_t before = 2 * all;
    set("rotated elements of a head", before, elements);
    m.rotaryFrequencies = std::move(picked);
  }

  /// Reduces the experts, in at most two groups. Each token is still routed to some but not all experts and groups.
  void reduceExperts() {
    int64_t all = m.experts, groups = m.expertGroups;
    set("experts", m.experts, std::min(all, std::max(kLeastExperts, kExpertsARank * sizes.expertShards)));
    if (m.experts < all) {
      set("experts of a token", m.choices,
          m.choices == all ? m.experts : std::min(m.choices, std::max<int64_t>(1, m.experts / kExpertGroups)));
      set("groups of experts", m.expertGroups, std::min(groups, kExpertGroups));
      set("groups of a token's experts", m.chosenGroups, m.chosenGroups < groups ? 1 : m.expertGroups);
    }
    set("intermediate size of experts", m.expertInner, std::min(m.expertInner, kExpertInner));
    set("intermediate size of shared experts", m.sharedInner, std::min(m.sharedInner, kSharedInner));
    m.slots = slotsPerExpert(m, step);
  }

  TransformerModel &m;
  StepSize &step;
  const SmallSizes &sizes;
  std::vector<std::string> notes;
};

} // namespace

std::vector<std::string> reduceSizes(TransformerModel &model, StepSize &step, const SmallSizes &sizes) {
  return Reducer(model, step, sizes).run();
}

} // namespace kerf::frontend
