// SPDX-License-Identifier: Apache-2.0
#include "kerf/Frontend/ReadSizes.h"
#include "Common/WayOut.h"
#include "Config/TransformerModel.h"

#include <cmath>

namespace kerf {

using namespace frontend;

namespace {

const char *word(TrainingObjective objective) {
  switch (objective) {
  case TrainingObjective::CausalLm:
    return "causal";
  case TrainingObjective::MaskedLm:
    return "masked";
  case TrainingObjective::ImageClassification:
    return "image";
  case TrainingObjective::SequenceToSequence:
    return "sequence-to-sequence";
  }
  return "";
}

const char *word(HeadNorm norm) {
  return norm == HeadNorm::None ? "" : norm == HeadNorm::EachHead ? "each-head" : "all-heads";
}

const char *word(NormKind norm) {
  return norm == NormKind::Layer ? "layer" : norm == NormKind::Rms ? "rms" : "rms-plus-one";
}

const char *word(PositionKind position) {
  switch (position) {
  case PositionKind::Learned:
    return "learned";
  case PositionKind::Rotary:
    return "rotary";
  case PositionKind::Alibi:
    return "alibi";
  case PositionKind::RelativeBias:
    return "relative";
  }
  return "";
}

const char *word(ResidualForm residual) {
  switch (residual) {
  case ResidualForm::PreNorm:
    return "pre";
  case ResidualForm::PostNorm:
    return "post";
  case ResidualForm::Parallel:
    return "parallel";
  case ResidualForm::ParallelSharedNorm:
    return "parallel-shared";
  }
  return "";
}

const char *word(Activation activation) {
  switch (activation) {
  case Activation::Gelu:
    return "gelu";
  case Activation::GeluTanh:
    return "gelu-tanh";
  case Activation::Relu:
    return "relu";
  case Activation::Silu:
    return "silu";
  }
  return "";
}

/// Returns the base of rotary position embeddings as the configuration has it. If it is absent, the base follows from
/// the first two frequencies, whose ratio is base^(-1 / pairs), rounded to four digits as the families' defaults are.
double rotaryBase(ConfigReader &config, std::optional<ConfigReader> &section, const std::vector<double> &frequencies) {
  if (section && section->has("rope_theta"))
    return section->number("rope_theta", 0, 0);
  if (config.has("rope_theta|rotary_emb_base"))
    return config.number("rope_theta|rotary_emb_base", 0, 0);
  if (frequencies.size() < 2)
    return 0;
  double base = std::pow(frequencies[0] / frequencies[1], double(frequencies.size()));
  double unit = std::pow(10, std::floor(std::log10(base)) - 3);
  return std::round(base / unit) * unit;
}

void readRotary(ConfigReader &config, const TransformerModel &m, ModelSizes &sizes) {
  auto section = config.section("rope_parameters|rope_scaling");
  sizes.rotaryHeadSize = 2 * int64_t(m.rotaryFrequencies.size());
  sizes.rotaryFraction = double(sizes.rotaryHeadSize) / double(m.headSize);
  sizes.rotaryBase = rotaryBase(config, section, m.rotaryFrequencies);
  std::string kind = section ? section->text("rope_type|type", "default") : "default";
  if (kind == "linear" || kind == "llama3" || kind == "yarn") {
    sizes.rotaryScaling = kind;
    double positions = kind == "llama3" ? 8192 : double(m.maxPositions);
    sizes.rotaryPositions = section->number("original_max_position_embeddings", positions, 0);
    double usual = kind == "llama3" ? 8 : kind == "yarn" ? double(m.maxPositions) / sizes.rotaryPositions : 1;
    sizes.rotaryFactor = section->number("factor", usual, 0);
    sizes.rotaryLow = section->number("low_freq_factor", 1, 0);
    sizes.rotaryHigh = section->number("high_freq_factor", 4, 0);
    sizes.rotaryFast = section->number("beta_fast", 32, 0);
    sizes.rotarySlow = section->number("beta_slow", 1, 0);
    sizes.rotaryScale = section->number("mscale", 0, -1);
    sizes.rotaryScaleAll = section->number("mscale_all_dim", 0, -1);
    sizes.rotaryAttention = m.rotaryScale;
    sizes.rotaryRounds = section->flag("truncate", true);
  }
}

/// Returns how Megatron-LM shards the parameters of a model without experts and latent attention.
std::vector<MegatronSharding> cutsOf(const TransformerModel &m) {
  using Dimension = MegatronSharding::Dimension;
  std::vector<MegatronSharding> cuts;
  if (m.experts || m.keyValueRank)
    return cuts;
  bool inOut = m.layout == WeightLayout::InOut;
  for (const ModuleNames *n : {&m.names, &m.decoder}) {
    auto add = [&](const std::string &module, const char *parameter, Dimension dimension) {
      if (!module.empty())
        cuts.push_back({n->layers + ".*." + module + parameter, dimension});
    };
    for (const std::string &in :
         {n->fused, n->query, n->key, n->value, n->gate, n->up, n->crossQuery, n->crossKey, n->crossValue}) {
      add(in, ".weight", inOut ? Dimension::NotFirst : Dimension::NotLast);
      add(in, ".bias", Dimension::Any);
    }
    for (const std::string &out : {n->output, n->down, n->crossOutput})
      add(out, ".weight", inOut ? Dimension::NotLast : Dimension::NotFirst);
    for (const std::string &words : {n->tokens, n->head})
      if (!words.empty())
        cuts.push_back({words + ".weight", Dimension::First});
  }
  return cuts;
}

} // namespace

Result<ModelSizes> readModelSizes(const std::string &configPath, int64_t sequence) {
  StepSize step{0, sequence, kExactExperts};
  std::vector<std::string> warnings;
  auto model = modelFromConfig(configPath, step, warnings);
  if (!model)
    return model.error();
  auto config = ConfigReader::open(configPath);
  if (!config)
    return config.error();
  const TransformerModel &m = *model;
  ModelSizes sizes;
  sizes.family = config->text("model_type", "");
  sizes.task = word(m.objective);
  sizes.layers = m.layers;
  sizes.decoderLayers = m.decoderLayers;
  sizes.hidden = m.hidden;
  sizes.heads = m.heads;
  sizes.keyValueHeads = m.groups;
  sizes.headSize = m.headSize;
  sizes.mlpWidth = m.experts && !m.denseLayers ? 0 : m.inner;
  sizes.vocabulary = m.vocabulary;
  sizes.positions = m.maxPositions;
  sizes.sequence = step.sequence;
  sizes.norm = word(m.norm);
  sizes.epsilon = m.epsilon;
  sizes.activation = word(m.activation);
  sizes.gated = m.gated;
  sizes.position = word(m.position);
  if (m.position == PositionKind::Rotary)
    readRotary(*config, m, sizes);
  sizes.window = m.window;
  sizes.residual = word(m.residual);
  sizes.queryKeyValueBias = m.queryKeyValueBias;
  sizes.outputBias = m.outputBias;
  sizes.mlpBias = m.mlpBias;
  sizes.queryKeyNorm = word(m.queryKeyNorm);
  if (m.projection == ProjectionForm::Latent) {
    sizes.queryLatent = m.queryRank;
    sizes.keyValueLatent = m.keyValueRank;
    sizes.valueSize = m.valueSize;
    sizes.rotaryFraction = 1; // the fraction refers to the elements that carry the position
  }
  sizes.tiedEmbeddings = m.tiedHead;
  sizes.embeddingNorm = m.embeddingNorm;
  sizes.scaledEmbedding = m.scaledEmbedding;
  sizes.experts = m.experts;
  sizes.expertsPerToken = m.choices;
  sizes.expertWidth = m.expertInner;
  sizes.normalizedExpertWeights = m.choicesAddToOne;
  sizes.denseLayers = m.denseLayers;
  sizes.sharedExpertWidth = m.sharedInner;
  sizes.sharedExpertGate = m.sharedInner && !m.names.sharedGate.empty();
  sizes.router = m.router == Router::Softmax ? "softmax" : "corrected-sigmoid";
  sizes.expertGroups = m.expertGroups;
  sizes.groupsPerToken = m.chosenGroups;
  sizes.routedScale = m.routedScale;
  sizes.cuts = cutsOf(m);
  sizes.dropout = m.dropsAttention || m.dropsResidual || m.dropsEmbedding;
  if (Status status = config->status(); !status)
    return withWayOut(status.error(), kCorrectConfiguration);
  return sizes;
}

} // namespace kerf
