// SPDX-License-Identifier: Apache-2.0
#include "View.h"

#include <algorithm>
#include <cmath>

namespace kerf::exporting {

/// Returns the mode that recomputes most.
static std::string strongest(const std::vector<Recompute> &modes) {
  for (Recompute mode :
       {Recompute::Offload, Recompute::Full, Recompute::ExceptAttention, Recompute::Pointwise, Recompute::Selective})
    if (std::find(modes.begin(), modes.end(), mode) != modes.end())
      return std::string(toString(mode));
  return std::string(toString(Recompute::None));
}

static bool alike(const std::vector<Recompute> &modes) {
  return std::all_of(modes.begin(), modes.end(), [&](Recompute mode) { return mode == modes.front(); });
}

View::View(const ExportInput &input)
    : in(input), plan(input.completed.plan), model(input.model), tensor(plan.meshSizes.at("model")),
      data(plan.meshSizes.at("data")), pipeline(plan.meshSizes.at("stage")), context(plan.meshSizes.at("context")),
      expert(plan.meshSizes.at("expert")), chunks(plan.schedule.chunks), schedule(input.completed.schedule.kind),
      ranks(tensor * data * pipeline * context * expert), microbatches(input.completed.microbatches),
      sequenceParallel(plan.sequenceParallel.front()),
      sharding(*std::max_element(plan.optimizerSharding.begin(), plan.optimizerSharding.end())) {
  const std::vector<Level> &levels = input.completed.cluster.levels;
  devicesPerNode = levels.empty() ? ranks : std::min(levels.front().size, ranks);
  std::vector<Recompute> modes = plan.recompute;
  for (const LayerRecompute &rule : plan.recomputeLayers)
    modes.push_back(rule.mode);
  recompute = strongest(modes);
  uniformRecompute = plan.recomputeLayers.empty() && alike(plan.recompute);
}

void View::findRecomputedLayers(int64_t layers) {
  bool numbered = layers > 0; // patterns of names do not select layers by number
  for (const LayerRecompute &rule : plan.recomputeLayers) {
    bool matches = false;
    for (int64_t layer = 0; layer < layers && !matches; ++layer)
      matches = matchesLayer(rule.pattern, layer, "");
    numbered &= matches;
  }
  if (plan.recomputeLayers.empty() || !numbered)
    return;
  std::vector<Recompute> modes;
  for (int64_t layer = 0; layer < layers; ++layer)
    modes.push_back(recomputeModeOf(plan, 0, layer, ""));
  recompute = strongest(modes);
  uniformRecompute = alike(modes);
  if (uniformRecompute)
    return;
  bool inBlocks = true;
  int64_t most = 0;
  std::vector<std::pair<int64_t, int64_t>> parts; // for each part: layers that are recomputed, all layers
  for (auto [begin, end] : cut.empty() ? LayerCut{{0, layers}} : cut) {
    int64_t first = begin;
    while (first < end && modes[first] == Recompute::Full)
      ++first;
    inBlocks &=
        std::all_of(modes.begin() + first, modes.begin() + end, [](Recompute mode) { return mode == Recompute::None; });
    parts.emplace_back(first - begin, end - begin);
    most = std::max(most, first - begin);
  }
  if (!inBlocks)
    return;
  recomputeBlock = most;
  uniformRecompute = std::all_of(parts.begin(), parts.end(),
                                 [&](const auto &part) { return part.first == std::min(most, part.second); });
}

bool View::overlaps(const char *what) const {
  return plan.overlap && std::find(plan.overlap->begin(), plan.overlap->end(), what) != plan.overlap->end();
}

std::vector<int64_t> View::layersByPart() const {
  std::vector<int64_t> counts;
  for (auto [begin, end] : cut)
    counts.push_back(end - begin);
  return counts;
}

bool View::axisOrderIs(std::initializer_list<const char *> wanted) const {
  std::vector<std::string> order;
  for (const char *axis : wanted)
    if (plan.meshSizes.at(axis) > 1)
      order.push_back(axis);
  std::vector<std::string> given;
  for (const MeshAxis &axis : in.completed.mesh.axes)
    given.push_back(axis.name);
  return given == order;
}

void Draft::file(const std::string &path, Json what) {
  std::string said = fmt::format("{} = {}", path, what.dump());
  Json *at = &config;
  size_t from = 0;
  for (size_t dot; (dot = path.find('.', from)) != std::string::npos; from = dot + 1)
    at = &(*at)[path.substr(from, dot - from)];
  (*at)[path.substr(from)] = std::move(what);
  expressed(std::move(said));
}

void Draft::argument(const std::string &name, Json what) {
  std::string said =
      what == true ? name : fmt::format("{} {}", name, fmt::join(commandLineWords(Json{{"", what}}), " "));
  arguments[name] = std::move(what);
  expressed(std::move(said));
}

namespace {

using Settings = std::vector<std::pair<std::string, Json>>;

/// Adds the keys of the plan file; keys of nested objects are joined with a dot.
void addPlan(const View &view, Settings &all) {
  Plan plan = view.plan;
  if (plan.order.empty())
    for (const MeshAxis &axis : view.in.completed.mesh.axes)
      plan.order.push_back(axis.name);
  if (plan.stages.empty() && view.pipeline > 1)
    for (size_t p = 0; p < view.cut.size(); ++p) {
      auto [begin, end] = view.cut[p];
      StageLayers run{std::nullopt, int64_t(p) % view.pipeline, int64_t(p) / view.pipeline};
      if (begin < end)
        run.layers = {begin, end - 1};
      plan.stages.push_back(run);
    }
  Json root = Json::parse(toJson(plan));
  for (const auto &[key, value] : root.items()) {
    if (key == "mesh" || key == "schedule")
      for (const auto &[inner, size] : value.items())
        all.emplace_back(fmt::format("{}.{}", key, inner), size);
    else
      all.emplace_back(key, value);
  }
}

void addModel(const View &view, Settings &all) {
  const ModelSizes &m = view.model;
  auto add = [&](const char *name, Json value) { all.emplace_back(fmt::format("model.{}", name), std::move(value)); };
  if (!m.known())
    return add("sizes", "not known from the graph");
  add("family", m.family);
  add("task", m.task);
  add("layers", m.layers);
  if (m.decoderLayers)
    add("decoder_layers", m.decoderLayers);
  add("hidden_size", m.hidden);
  add("heads", m.heads);
  add("kv_heads", m.keyValueHeads);
  add("head_size", m.headSize);
  if (m.mlpWidth)
    add("ffn_size", m.mlpWidth);
  if (m.vocabulary)
    add("vocabulary", m.vocabulary);
  add("positions", m.positions);
  add("sequence", m.sequence);
  add("norm", m.norm);
  add("norm_epsilon", m.epsilon);
  add("activation", m.gated ? "gated " + m.activation : m.activation);
  add("position", m.position);
  if (m.position == "rotary") {
    add("rotary_base", m.rotaryBase);
    add("rotary_fraction", m.rotaryFraction);
    if (!m.rotaryScaling.empty())
      add("rotary_scaling", fmt::format("{} by {}", m.rotaryScaling, m.rotaryFactor));
  }
  if (m.window)
    add("window", m.window);
  add("residual", m.residual);
  std::vector<std::string> biases;
  for (auto [has, name] :
       {std::pair{m.queryKeyValueBias, "qkv"}, {m.outputBias, "attention output"}, {m.mlpBias, "mlp"}})
    if (has)
      biases.push_back(name);
  add("biases", biases);
  if (!m.queryKeyNorm.empty())
    add("query_key_norm", m.queryKeyNorm);
  if (m.keyValueLatent)
    add("latent_attention", {{"queries", m.queryLatent},
                             {"keys and values", m.keyValueLatent},
                             {"head", m.headSize},
                             {"rotated", m.rotaryHeadSize},
                             {"value", m.valueSize}});
  add("tied_embeddings", m.tiedEmbeddings);
  if (m.embeddingNorm)
    add("embedding_norm", true);
  if (m.scaledEmbedding)
    add("scaled_embedding", true);
  if (m.experts) {
    add("experts", m.experts);
    add("experts_per_token", m.expertsPerToken);
    add("expert_ffn_size", m.expertWidth);
    add("expert_weights_add_to_one", m.normalizedExpertWeights);
    if (m.sharedExpertWidth)
      add("shared_expert_ffn_size", m.sharedExpertWidth);
    if (m.denseLayers)
      add("dense_layers", m.denseLayers);
    if (m.router != "softmax")
      add("router", m.router);
    if (m.expertGroups > 1)
      add("expert_groups", fmt::format("{} of {}", m.groupsPerToken, m.expertGroups));
    if (m.routedScale != 1)
      add("expert_weights_scale", m.routedScale);
    bool exact = !view.in.expertCapacity || std::isinf(*view.in.expertCapacity);
    add("expert_capacity", exact ? Json("exact") : Json(*view.in.expertCapacity));
  }
  add("dropout", m.dropout);
}

void addTraining(const View &view, Settings &all) {
  const OptimizerSettings &o = view.in.optimizer;
  all.emplace_back("dtype", view.in.job.dtype);
  all.emplace_back("optimizer.kind", o.kind);
  if (!hasCommonOptimizer(view)) {
    all.emplace_back("optimizer.settings", o.settings);
  } else {
    for (auto [name, value] : o.settings) {
      std::string key = name;
      std::replace(key.begin(), key.end(), '-', '_');
      all.emplace_back("optimizer." + key, value);
    }
  }
  if (!o.noDecay.empty())
    all.emplace_back("optimizer.no_decay", o.noDecay);
  all.emplace_back("optimizer.clip_norm", o.clipNorm);
}

} // namespace

bool hasCommonOptimizer(const View &view) {
  return view.in.optimizer.kind == "sgd" || view.in.optimizer.kind == "adamw";
}

void noteOptimizer(const View &view, Draft &out) {
  if (hasCommonOptimizer(view))
    return;
  out.runs.optimizer = "adamw";
  out.differs(
      fmt::format("there is no {}: AdamW runs instead, with default settings and two states for each parameter, "
                  "whose memory the plan does not include",
                  view.in.optimizer.kind));
}

std::vector<std::pair<std::string, Json>> settings(const View &view) {
  Settings all;
  addModel(view, all);
  addPlan(view, all);
  addTraining(view, all);
  return all;
}

} // namespace kerf::exporting
