// SPDX-License-Identifier: Apache-2.0
#include "kerf/Frontend/ReadSizes.h"
#include "Config/TransformerModel.h"

#include <cmath>

namespace kerf {

using namespace frontend;

namespace {

const char *word(Task task) {
  switch (task) {
  case Task::CausalLm:
    return "causal";
  case Task::MaskedLm:
    return "masked";
  case Task::ImageClassification:
    return "image";
  case Task::SequenceToSequence:
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

/// The base as the configuration has it. Where it leaves it to its family's default, from the frequencies that the base
/// makes: b^(-1 / pairs) is the second over the first; rounded to four digits, as those defaults are.
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
  sizes.rotated = 2 * int64_t(m.rotaryFrequencies.size());
  sizes.rotaryFraction = double(sizes.rotated) / double(m.headSize);
  sizes.rotaryBase = rotaryBase(config, section, m.rotaryFrequencies);
  std::string kind = section ? section->text("rope_type|type", "default") : "default";
  if (kind == "linear" || kind == "llama3" || kind == "yarn") {
    sizes.rotaryScaling = kind;
    sizes.rotaryFactor = section->number("factor", kind == "llama3" ? 8 : 1, 0);
  }
}

/// Of models without experts and latents, whose parameters have one form.
std::vector<MegatronCut> cutsOf(const TransformerModel &m) {
  using Where = MegatronCut::Where;
  std::vector<MegatronCut> cuts;
  if (m.experts || m.keyValueRank)
    return cuts;
  bool inOut = m.layout == WeightLayout::InOut;
  for (const ModuleNames *n : {&m.names, &m.decoder}) {
    auto add = [&](const std::string &module, const char *parameter, Where where) {
      if (!module.empty())
        cuts.push_back({n->layers + ".*." + module + parameter, where});
    };
    for (const std::string &in :
         {n->fused, n->query, n->key, n->value, n->gate, n->up, n->crossQuery, n->crossKey, n->crossValue}) {
      add(in, ".weight", inOut ? Where::NotFirst : Where::NotLast);
      add(in, ".bias", Where::Any);
    }
    for (const std::string &out : {n->output, n->down, n->crossOutput})
      add(out, ".weight", inOut ? Where::NotLast : Where::NotFirst);
    for (const std::string &words : {n->tokens, n->head})
      if (!words.empty())
        cuts.push_back({words + ".weight", Where::First});
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
  sizes.task = word(m.task);
  sizes.layers = m.layers;
  sizes.decoderLayers = m.decoderLayers;
  sizes.hidden = m.hidden;
  sizes.heads = m.heads;
  sizes.groups = m.groups;
  sizes.headSize = m.headSize;
  sizes.inner = m.experts && !m.denseLayers ? 0 : m.inner;
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
    sizes.rotaryFraction = 1; // of the elements that carry the position
  }
  sizes.tiedEmbeddings = m.tiedHead;
  sizes.embeddingNorm = m.embeddingNorm;
  sizes.scaledEmbedding = m.scaledEmbedding;
  sizes.experts = m.experts;
  sizes.choices = m.choices;
  sizes.expertInner = m.expertInner;
  sizes.choicesAddToOne = m.choicesAddToOne;
  sizes.denseLayers = m.denseLayers;
  sizes.sharedInner = m.sharedInner;
  sizes.sharedGate = m.sharedInner && !m.names.sharedGate.empty();
  sizes.router = m.router == Router::Softmax ? "softmax" : "corrected-sigmoid";
  sizes.expertGroups = m.expertGroups;
  sizes.chosenGroups = m.chosenGroups;
  sizes.routedScale = m.routedScale;
  sizes.cuts = cutsOf(m);
  sizes.dropout = m.dropsAttention || m.dropsResidual || m.dropsEmbedding;
  if (Status status = config->status(); !status)
    return status.error();
  return sizes;
}

} // namespace kerf
