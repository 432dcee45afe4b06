// SPDX-License-Identifier: Apache-2.0
// Reads a configuration into a checked TransformerModel: finds the family, reads its keys, and refuses unsupported keys
// by name.
#include "Config/TransformerModel.h"
#include "Common/TermBuilder.h"
#include "Common/WayOut.h"
#include "Config/TransformerFamilies.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::frontend {

namespace {

constexpr int64_t kMostHeads = 1024, kMostStep = int64_t(1) << 24;
constexpr double kMostElements =
    17592186044416.0; // 2^44 elements of one tensor, such as 2^24 tokens times a vocabulary of 2^20
constexpr int64_t kDefaultBatch = 1, kDefaultSequence = 2048;

std::optional<int64_t> read(ConfigReader &config, const Family::Count &key, int64_t most) {
  return *key.names ? config.integer(key.names, key.fallback, 1, most) : key.fallback;
}

void readSizes(ConfigReader &config, const Family &family, TransformerModel &m) {
  const Family::Keys &keys = family.keys;
  auto required = [&](const Family::Count &key, int64_t most) -> int64_t {
    auto value = read(config, key, most);
    if (!value && key.fallback)
      config.fail(fmt::format("{} is null, but an integer is needed", key.names));
    return value.value_or(0);
  };
  m.layers = required(keys.layers, kMaxLayers);
  m.hidden = required(keys.hidden, kMaxSize);
  m.heads = std::max<int64_t>(1, required(keys.heads, kMostHeads));
  m.vocabulary = required(keys.vocabulary, kMaxSize);
  m.maxPositions = required(keys.maxPositions, kMaxSize);
  m.groups = read(config, keys.groups, kMostHeads).value_or(m.heads);
  m.inner = read(config, keys.inner, kMaxSize).value_or(4 * m.hidden);
  auto headSize = read(config, keys.headSize, kMaxHeadSize);
  if (!headSize && m.hidden % m.heads != 0)
    config.fail(fmt::format("{} heads do not divide the hidden size {}", m.heads, m.hidden));
  m.headSize = m.valueSize = headSize.value_or(m.hidden / m.heads);
  if (m.headSize < 1 || m.headSize > kMaxHeadSize)
    config.fail(fmt::format("a head has {} elements ({} over {} heads), but 1 to {} are supported", m.headSize,
                            m.hidden, m.heads, kMaxHeadSize));
  if (m.heads % m.groups != 0)
    config.fail(fmt::format("{} key/value heads do not divide {} heads", m.groups, m.heads));
  m.epsilon = *keys.epsilon.names ? config.number(keys.epsilon.names, keys.epsilon.fallback, 0) : keys.epsilon.fallback;
  m.tiedHead = config.flag("tie_word_embeddings", keys.tiedHead);
}

void checkFixed(ConfigReader &config, const Family &family) {
  for (const auto &[key, only] : family.fixed)
    if (config.has(key) && config.value(key) != only)
      config.fail(fmt::format("{} is {}, but only {} is supported for '{}'; export the model to ONNX", key,
                              config.value(key).dump(), only.dump(), family.modelType));
}

/// Fills in the default sizes of the step, and checks that they fit the position table of the model.
void readStep(ConfigReader &config, const TransformerModel &m, StepSize &step) {
  if (step.batch < 0 || step.batch > kMostStep)
    config.fail(
        fmt::format("<global-batch> is {}, but an integer from 1 to {} is needed; give one", step.batch, kMostStep));
  if (step.sequence < 0 || step.sequence > kMostStep)
    config.fail(
        fmt::format("<sequence> is {}, but an integer from 1 to {} is needed; give one", step.sequence, kMostStep));
  if (!(step.expertCapacity > 0))
    config.fail(fmt::format("<expert-capacity> is {}, but 'exact' or a number above 0 is needed; give one of the two",
                            step.expertCapacity));
  if (step.batch == 0)
    step.batch = kDefaultBatch;
  if (m.objective == TrainingObjective::ImageClassification)
    return;
  if (step.sequence == 0)
    step.sequence = std::min(kDefaultSequence, m.maxPositions);
  if (m.position == PositionKind::Learned && step.sequence > m.maxPositions)
    config.fail(fmt::format("<sequence> is {}, but the model has {} positions; give a shorter <sequence>",
                            step.sequence, m.maxPositions));
  if (m.objective == TrainingObjective::CausalLm && step.sequence < 2)
    config.fail(fmt::format(
        "<sequence> is {}, but at least 2 tokens are needed, because the label of a token is the next token; give 2 "
        "or more",
        step.sequence));
}

/// Sets the sequence length of an image model: the class token and the patches.
void countPatches(ConfigReader &config, const TransformerModel &m, StepSize &step) {
  int64_t side = m.patchSize > 0 ? m.imageSize / m.patchSize : 0, sequence = side * side + 1;
  if (step.sequence != 0 && step.sequence != sequence)
    config.fail(fmt::format(
        "<sequence> is {}, but an image of {}x{} pixels in patches of {}x{} is a sequence of {}; leave <sequence> out",
        step.sequence, m.imageSize, m.imageSize, m.patchSize, m.patchSize, sequence));
  step.sequence = sequence;
}

void checkElements(ConfigReader &config, const TransformerModel &m, const StepSize &step) {
  auto check = [&](const char *what, std::initializer_list<int64_t> shape) {
    double elements = 1;
    for (int64_t size : shape)
      elements *= double(std::max<int64_t>(1, size));
    if (elements > kMostElements)
      config.fail(fmt::format("{} of shape {} would have {:.3g} elements, but at most {:.3g} are supported; give a "
                              "smaller <global-batch> or <sequence>, or correct the configuration",
                              what, shapeText(Shape(shape)), elements, kMostElements));
  };
  int64_t projected = m.heads * m.headSize + m.groups * (m.headSize + m.valueSize),
          latent = std::max(m.queryRank, m.keyValueRank + m.headSize), inner = std::max(m.inner, m.sharedInner);
  check("the logits", {step.batch, step.sequence, std::max(m.vocabulary, m.classes)});
  check("the MLP's activations", {step.batch, step.sequence, inner});
  check("the activations", {step.batch, step.sequence, std::max(m.hidden, projected)});
  check("the picture", {step.batch, m.channels, m.imageSize, m.imageSize});
  check("the attention's sums", {step.batch, m.heads, step.sequence});
  check("the embedding", {std::max({m.vocabulary, m.maxPositions, m.tokenTypes, m.classes}), m.hidden});
  check("the MLP's weight", {inner, m.hidden});
  check("the experts' slots", {m.experts, step.batch, m.slots, std::max(m.hidden, 2 * m.expertInner)});
  check("the experts' weight", {m.experts, 2 * m.expertInner, m.hidden});
  check("the projections' weight", {projected, m.hidden});
  if (m.projection == ProjectionForm::Latent) {
    check("the latents", {step.batch, step.sequence, latent});
    check("the latents' weight", {latent, std::max(m.hidden, projected)});
  }
  if (m.position == PositionKind::RelativeBias)
    check("the attention's scores", {step.batch, m.heads, step.sequence, step.sequence});
  if (m.position == PositionKind::Alibi)
    check("the attention bias", {m.heads, step.sequence, step.sequence});
  if (m.objective == TrainingObjective::MaskedLm || m.window > 0)
    check("the attention mask",
          {m.objective == TrainingObjective::MaskedLm ? step.batch : 1, step.sequence, step.sequence});
}

Result<const Family *> familyOf(ConfigReader &config) {
  std::vector<std::string> names;
  for (const Family &family : families())
    names.push_back(family.modelType);
  std::string type = config.text("model_type", "");
  KERF_CHECK(config.status());
  if (type.empty())
    return Error{fmt::format("the key model_type is missing; supported are: {}", fmt::join(names, ", "))};
  for (const Family &family : families())
    if (type == family.modelType)
      return &family;
  for (const RefusedFamily &refused : refusedFamilies())
    if (type == refused.modelType)
      return Error{fmt::format("model_type '{}' is not supported ({}); supported are: {}", type, refused.missing,
                               fmt::join(names, ", "))};
  return Error{fmt::format("model_type '{}' is not known; supported are: {}. For another model, export it to ONNX",
                           type, fmt::join(names, ", "))};
}

} // namespace

void setActivation(ConfigReader &config, TransformerModel &m, const std::string &key, const std::string &name) {
  const std::pair<const char *, Activation> known[] = {{"gelu", Activation::Gelu},
                                                       {"gelu_python", Activation::Gelu},
                                                       {"gelu_new", Activation::GeluTanh},
                                                       {"gelu_fast", Activation::GeluTanh},
                                                       {"gelu_pytorch_tanh", Activation::GeluTanh},
                                                       {"relu", Activation::Relu},
                                                       {"silu", Activation::Silu},
                                                       {"swish", Activation::Silu}};
  std::vector<const char *> names;
  for (const auto &[text, activation] : known) {
    if (name == text) {
      m.activation = activation;
      return;
    }
    names.push_back(text);
  }
  config.fail(
      fmt::format("the activation '{}' ({}) is not supported; supported are: {}", name, key, fmt::join(names, ", ")));
}

void readWindow(ConfigReader &config, TransformerModel &m, const StepSize &step, const WindowKeys &keys) {
  std::optional<int64_t> window = config.integer("sliding_window", keys.window, 1, kMaxSize);
  if (!window || step.sequence <= *window)
    return;
  // The layers with a window are those of the list of layer types, or all layers from max_window_layers on.
  std::vector<std::string> types = config.texts("layer_types");
  int64_t sliding = std::count(types.begin(), types.end(), "sliding_attention");
  int64_t layers = int64_t(types.size());
  if (types.empty()) {
    layers = m.layers;
    sliding = layers - std::min(layers, config.integer("max_window_layers", keys.firstLayer, 0, kMaxSize).value_or(0));
  }
  if (sliding == layers)
    m.window = *window;
  else if (sliding > 0)
    config.fail(fmt::format("{} of {} layers have a sliding_window of {}, shorter than the sequence of {}; models with "
                            "a window in some layers only are not supported",
                            sliding, layers, *window, step.sequence));
}

void readExperts(ConfigReader &config, TransformerModel &m, const StepSize &step, const ExpertKeys &keys) {
  m.experts = read(config, keys.experts, kMaxExperts).value_or(1);
  m.choices = read(config, keys.choices, kMaxExperts).value_or(1);
  m.expertInner = read(config, keys.inner, kMaxSize).value_or(1);
  if (m.choices > m.experts)
    return config.fail(fmt::format("{} is {}, but there are {} experts; give a number from 1 to the number of experts",
                                   keys.choices.names, m.choices, m.experts));
  m.slots = slotsPerExpert(m, step);
}

int64_t slotsPerExpert(const TransformerModel &m, const StepSize &step) {
  double share = double(m.choices) * double(step.sequence) / double(m.experts) * step.expertCapacity;
  return int64_t(std::ceil(std::min(share, double(step.sequence))));
}

/// The keys of dropout probabilities, with the defaults of the configuration classes; "": no key.
static void readDropout(ConfigReader &config, const std::string &type, TransformerModel &m) {
  struct Key {
    const char *name = "";
    double fallback = 0;
  };
  struct Row {
    std::vector<const char *> types;
    Key attention, residual, embedding;
  };
  const Row table[] = {
      {{"gpt2"}, {"attn_pdrop", 0.1}, {"resid_pdrop", 0.1}, {"embd_pdrop", 0.1}},
      {{"opt"}, {"attention_dropout", 0}, {"dropout", 0.1}, {}},
      {{"bert"}, {"attention_probs_dropout_prob", 0.1}, {"hidden_dropout_prob", 0.1}, {"hidden_dropout_prob", 0.1}},
      {{"vit"}, {"attention_probs_dropout_prob", 0}, {"hidden_dropout_prob", 0}, {"hidden_dropout_prob", 0}},
      {{"t5"}, {"dropout_rate", 0.1}, {"dropout_rate", 0.1}, {"dropout_rate", 0.1}},
      {{"gpt_neox", "bloom", "falcon"}, {"attention_dropout", 0}, {"hidden_dropout", 0}, {"hidden_dropout", 0}},
      {{"llama", "mistral", "qwen2", "qwen3", "gemma", "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2",
        "deepseek_v3"},
       {"attention_dropout", 0},
       {},
       {}},
  };
  auto drops = [&](const Key &key) {
    const nlohmann::json &given = config.value(key.name);
    return (given.is_number() ? given.get<double>() : key.fallback) > 0;
  };
  for (const Row &row : table)
    if (std::find(row.types.begin(), row.types.end(), type) != row.types.end()) {
      m.dropsAttention = drops(row.attention);
      m.dropsResidual = drops(row.residual);
      m.dropsEmbedding = drops(row.embedding);
    }
}

Result<TransformerModel> modelFromConfig(const ModelSource &source, StepSize &step,
                                         std::vector<std::string> &warnings) {
  const std::string &path = source.name;
  KERF_TRY(config, ConfigReader::open(source));
  auto located = [&](const Error &error) {
    return withWayOut({fmt::format("'{}': {}", path, error.message), error.status}, kCorrectConfiguration);
  };
  auto family = familyOf(config);
  if (!family)
    return located(family.error());
  TransformerModel m = (*family)->model;
  readSizes(config, **family, m);
  const Family::Text &activation = (*family)->keys.activation;
  setActivation(config, m, activation.names,
                *activation.names ? config.text(activation.names, activation.fallback) : activation.fallback);
  checkFixed(config, **family);
  readDropout(config, (*family)->modelType, m);
  readStep(config, m, step);
  if (Status status = config.status(); status && (*family)->refine)
    (*family)->refine(config, m, step);
  if (m.objective == TrainingObjective::ImageClassification)
    countPatches(config, m, step);
  std::vector<std::string> architectures = config.texts("architectures");
  if (Status status = config.status(); !status)
    return located(status.error());
  checkElements(config, m, step);
  if (Status status = config.status(); !status)
    return located(status.error());
  if (!architectures.empty() &&
      std::find(architectures.begin(), architectures.end(), (*family)->architecture) == architectures.end())
    warnings.push_back(fmt::format("'{}' has the architecture {}, but Kerf trains {} for this model_type; export the "
                                   "model to ONNX to train its own architecture",
                                   path, fmt::join(architectures, ", "), (*family)->architecture));
  return m;
}

} // namespace kerf::frontend
