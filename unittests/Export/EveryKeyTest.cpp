// SPDX-License-Identifier: Apache-2.0
// Checks on random complete plans that nothing is dropped silently: for every target, each key of the plan, the model
// and the training settings has a row and a decision. Also checks that the sizes in the files multiply to those of the
// plan.
#include "Inputs.h"

#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

using namespace kerf;
using namespace kerf::test;

namespace {

using Json = nlohmann::ordered_json;

/// Returns the keys of the plan file whose members are set. A new member of Plan breaks the compilation of this
/// function: add its key here, and a row to each target.
std::set<std::string> keysSet(const Plan &plan) {
  const auto &[meshSizes, order, stages, layout, sequenceParallel, contextStyle, optimizerSharding,
               optimizerShardingRanks, ops, arguments] = static_cast<const PlanLayout &>(plan);
  const auto &[globalBatch, microbatch, schedule, recompute, recomputeLayers, recomputeOps, overlap, gradientDtype,
               attention, optimizerStates, compression] = static_cast<const PlanExecution &>(plan);
  const auto &[name, chunks, variant, inFlight] = schedule;
  std::set<std::string> keys = {"kerf"};
  auto add = [&](const char *key, bool set) {
    if (set)
      keys.insert(key);
  };
  for (const auto &[axis, size] : meshSizes)
    keys.insert("mesh." + axis);
  add("order", !order.empty());
  add("global_batch", globalBatch);
  add("microbatch", microbatch);
  add("schedule.name", !name.empty());
  add("schedule.chunks", chunks);
  add("schedule.variant", !variant.empty());
  add("schedule.in_flight", !inFlight.empty());
  add("stages", !stages.empty());
  add("recompute", !recompute.empty() || !recomputeLayers.empty());
  add("optimizer_sharding", !optimizerSharding.empty());
  add("sequence_parallel", !sequenceParallel.empty());
  add("layout", layout.has_value());
  add("optimizer_sharding_ranks", optimizerShardingRanks);
  add("overlap", overlap.has_value());
  add("gradient_dtype", !gradientDtype.empty());
  add("attention", attention.has_value());
  add("optimizer_states", optimizerStates.has_value());
  add("compression", !compression.empty());
  add("context_style", contextStyle.has_value());
  add("ops", !ops.empty() || !recomputeOps.empty());
  add("arguments", !arguments.empty());
  add("predicted", plan.predicted.has_value());
  add("inputs", !plan.modelHash.empty() || !plan.clusterHash.empty());
  for (const auto &[key, value] : plan.keptKeys.items())
    keys.insert(key);
  return keys;
}

/// Returns the same keys from the text of the plan file.
std::set<std::string> keysOfFile(const Plan &plan) {
  std::set<std::string> keys;
  Json root = Json::parse(toJson(plan));
  for (const auto &[key, value] : root.items())
    if (key == "mesh" || key == "schedule")
      for (const auto &[inner, item] : value.items())
        keys.insert(key + "." + inner);
    else
      keys.insert(key);
  return keys;
}

/// Returns a random plan that uses all keys, on up to 192 ranks.
struct RandomPlans {
  std::mt19937_64 random;
  explicit RandomPlans(uint64_t seed) : random(seed) {}

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  template <typename T> T oneOf(std::initializer_list<T> values) {
    return values.begin()[below(int64_t(values.size()))];
  }
  bool coin() { return below(2); }

  ModelSizes model() {
    switch (below(5)) {
    case 0:
      return gpt3();
    case 1:
      return llama3();
    case 2:
      return {};
    case 3: {
      ModelSizes m = mixtral();
      m.denseLayers = 2, m.mlpWidth = 1000, m.sharedExpertWidth = 500, m.keyValueLatent = 64,
      m.router = "corrected-sigmoid";
      m.expertGroups = 4, m.groupsPerToken = 2, m.routedScale = 2.5, m.normalizedExpertWeights = coin(),
      m.sharedExpertGate = coin();
      m.rotaryScaling = oneOf<const char *>({"linear", "llama3", "yarn"}), m.rotaryFactor = oneOf({2.0, 2.5});
      m.queryKeyNorm = "all-heads", m.window = 128, m.scaledEmbedding = m.embeddingNorm = m.dropout = true;
      return m;
    }
    default: {
      ModelSizes m = gpt3();
      m.task = "sequence-to-sequence", m.decoderLayers = 4, m.position = "relative", m.activation = "relu";
      m.norm = "rms-plus-one", m.residual = "post", m.mlpBias = false;
      return m;
    }
    }
  }

  template <typename T> std::vector<T> perStage(int64_t stages, std::vector<T> values) {
    std::vector<T> chosen(coin() ? 1 : stages);
    for (T &value : chosen)
      value = values[below(int64_t(values.size()))];
    return chosen;
  }

  Plan plan(const ModelSizes &model, const std::string &dtype) {
    Plan p;
    int64_t stages = oneOf<int64_t>({1, 1, 2, 3, 4});
    p.meshSizes = {{"stage", stages},
                   {"data", oneOf<int64_t>({1, 2, 3})},
                   {"context", oneOf<int64_t>({1, 1, 2})},
                   {"expert", oneOf<int64_t>({1, 1, 2})},
                   {"model", oneOf<int64_t>({1, 2, 4})}};
    if (coin()) {
      p.order.assign(std::begin(kPlanAxes), std::end(kPlanAxes));
      std::shuffle(p.order.begin(), p.order.end(), random);
    }
    p.microbatch = oneOf<int64_t>({1, 2});
    p.globalBatch = p.meshSizes["data"] * p.meshSizes["expert"] * p.microbatch * stages * (1 + below(3));
    if (stages > 1)
      p.schedule.name = oneOf<const char *>({"gpipe", "1f1b", "interleaved", "zero-bubble"});
    if (p.schedule.name == "interleaved")
      p.schedule.chunks = oneOf<int64_t>({2, 3});
    if (p.schedule.name == "zero-bubble")
      p.schedule.variant = oneOf<const char *>({"h1", "1p", "2p", "by-memory"});
    if (p.schedule.name == "zero-bubble" && p.schedule.variant != "h1")
      p.schedule.inFlight = {1 + below(2 * stages)};
    int64_t layers = model.known() ? model.layers + model.decoderLayers : 24;
    int64_t parts = stages * std::max<int64_t>(1, p.schedule.chunks);
    if (stages > 1 && coin()) {
      std::vector<int64_t> ends;
      for (int64_t i = 0; i + 1 < parts; ++i)
        ends.push_back(below(layers + 1));
      std::sort(ends.begin(), ends.end());
      ends.push_back(layers);
      int64_t begin = 0;
      for (int64_t i = 0; i < parts; begin = ends[i++]) {
        StageLayers run{std::nullopt, i % stages, i / stages};
        if (begin < ends[i])
          run.layers = {begin, ends[i] - 1};
        p.stages.push_back(run);
      }
    }
    if (coin())
      p.recomputeLayers = {{"0", oneOf<Recompute>({Recompute::Selective, Recompute::Pointwise,
                                                   Recompute::ExceptAttention, Recompute::Full})},
                           {"*", Recompute::None}};
    else
      for (Recompute mode : perStage<Recompute>(stages, {std::begin(kDeviceModes), std::end(kDeviceModes)}))
        p.recompute.push_back(mode);
    p.optimizerSharding = perStage<int64_t>(stages, {0, 1, 2, 3});
    p.sequenceParallel = {coin()};
    p.layout = p.sequenceParallel[0] ? OpLayout::Megatron : oneOf<OpLayout>({OpLayout::Megatron, OpLayout::Solved});
    if (coin())
      p.optimizerShardingRanks = p.meshSizes["data"] * p.meshSizes["context"] * (coin() ? p.meshSizes["expert"] : 1);
    p.overlap.emplace();
    for (const char *what : kPlanOverlaps)
      if (coin())
        p.overlap->push_back(what);
    p.gradientDtype = dtype == "f32" || dtype == "f64" ? "" : oneOf<const char *>({"f32", "bf16", "f16"});
    p.attention = oneOf<AttentionKernels>({AttentionKernels::Fused, AttentionKernels::Unfused});
    bool sixteen = dtype == "bf16" || dtype == "f8";
    if (sixteen && p.optimizerSharding == std::vector<int64_t>(p.optimizerSharding.size(), 1))
      p.optimizerStates = oneOf<OptimizerStates>(
          {OptimizerStates::Device, OptimizerStates::Remainders, OptimizerStates::Bf16, OptimizerStates::Host});
    if (coin())
      p.compression.push_back({"*", {.codec = compression::findCodec("int8"), .errorFeedback = true}});
    p.contextStyle = oneOf<ContextStyle>({ContextStyle::Ring, ContextStyle::Ulysses});
    p.predicted = Prediction{1, 0.5, {1}, true, {}, {}};
    p.modelHash = p.clusterHash = "ab";
    p.keptKeys["report"] = {{"text", "x"}};
    return p;
  }
};

ExportInput randomInput(uint64_t seed) {
  RandomPlans make(seed);
  ModelSizes model = make.model();
  std::string dtype = make.oneOf<const char *>({"f64", "f32", "bf16", "f16", "f8"});
  ExportInput input = inputOf(toJson(make.plan(model, dtype)), model, dtype, /*nodes=*/32);
  if (make.coin())
    input.optimizer = {"sgd", {{"momentum", 0.9}, {"nesterov", 1}, {"weight-decay", 0.01}}, 0, {"*.bias"}};
  else if (make.coin())
    input.optimizer = {
        "muon",
        {{"momentum", 0.95}, {"nesterov", 1}, {"ns-steps", 5}, {"match-rms", 0}, {"eps", 1e-7}, {"weight-decay", 0.1}},
        1,
        {}};
  if (make.coin())
    input.expertCapacity = 1.5;
  if (make.coin()) {
    input.completed.plan.ops = {{"*", {{"m0", {"data"}}}}};
    input.completed.plan.arguments = {{"*", {{"model"}, {}}}};
  }
  return input;
}

/// Returns the seeds to run: all, or only n with the environment variable KERF_SEED=n.
std::vector<uint64_t> seeds() {
  if (const char *one = std::getenv("KERF_SEED"))
    return {std::strtoull(one, nullptr, 10)};
  std::vector<uint64_t> all(400);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = i;
  return all;
}

TEST(EveryKey, PlansHaveTheKeysOfTheirMembers) {
  std::set<std::string> seen;
  for (uint64_t seed : seeds()) {
    const Plan &plan = randomInput(seed).completed.plan;
    EXPECT_EQ(keysSet(plan), keysOfFile(plan)) << "seed " << seed;
    seen.merge(keysSet(plan));
  }
  if (seeds().size() == 1)
    return;
  for (const char *key : {"order", "stages", "schedule.variant", "schedule.in_flight", "optimizer_sharding_ranks",
                          "context_style", "ops"})
    EXPECT_TRUE(seen.contains(key)) << key;
}

TEST(EveryKey, HasADecisionInEveryTarget) {
  size_t written = 0;
  for (uint64_t seed : seeds()) {
    ExportInput input = randomInput(seed);
    std::set<std::string> wanted = keysSet(input.completed.plan);
    wanted.insert({"dtype", "optimizer.kind", "optimizer.clip_norm",
                   input.optimizer.kind == "muon" ? "optimizer.settings" : "optimizer.weight_decay"});
    if (!input.completed.mesh.axes.empty())
      wanted.insert("order");
    for (ExportTarget target : exportTargets()) {
      auto decisions = exportDecisions(target, input);
      ASSERT_TRUE(decisions) << "seed " << seed << ": " << decisions.error().message;
      std::vector<std::string> rows = exportKeys(target);
      std::set<std::string> decided;
      for (const ExportDecision &decision : *decisions) {
        decided.insert(decision.key);
        EXPECT_FALSE(decision.text.empty()) << decision.key;
        bool known = decision.key == "mesh" || // added for nodes that are only partly used
                     std::find(rows.begin(), rows.end(), decision.key) != rows.end();
        EXPECT_TRUE(known) << toString(target) << " has no row for " << decision.key << ", seed " << seed;
      }
      for (const std::string &key : wanted)
        EXPECT_TRUE(decided.contains(key)) << toString(target) << " says nothing of " << key << ", seed " << seed;
      auto exported = exportPlan(target, input, "file");
      if (!exported) { // another model, or a rule of the target
        EXPECT_FALSE(exported.error().message.empty());
        continue;
      }
      ++written;
      // Differences are in the list, and in the comments of files whose format has comments.
      for (const std::string &note : exportNotes(*exported)) {
        bool json = target == ExportTarget::DeepSpeed || target == ExportTarget::Transformers;
        bool told = json || exported->config.find(note) != std::string::npos;
        EXPECT_TRUE(told) << toString(target) << ": " << note;
      }
      EXPECT_EQ(exportPlan(target, input, "file")->config, exported->config);
    }
  }
  if (seeds().size() > 1) {
    EXPECT_GT(written, 500u) << "too few of the random plans can be written";
  }
}

/// Returns VALUE of "NAME VALUE" in a command line; 1 if NAME is missing.
int64_t argument(const std::string &line, const std::string &name) {
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word == name && words >> word)
      return std::stoll(word);
  return 1;
}

/// Returns the value of "key: value" or "key = value" in a text.
int64_t entry(const std::string &text, const std::string &key, const std::string &between) {
  size_t at = text.find(key + between);
  return at == std::string::npos ? 1 : std::stoll(text.substr(at + key.size() + between.size()));
}

TEST(EveryKey, NumbersMultiplyToThoseOfThePlan) {
  std::map<ExportTarget, int> written;
  for (uint64_t seed : seeds()) {
    ExportInput input = randomInput(seed);
    const Plan &plan = input.completed.plan;
    int64_t ranks = 1;
    for (const auto &[axis, size] : plan.meshSizes)
      ranks *= size;
    int64_t dataParallelRanks = plan.meshSizes.at("data") * plan.meshSizes.at("expert");
    auto expect = [&](const char *target, int64_t tensor, int64_t pipeline, int64_t context) {
      EXPECT_EQ(tensor * pipeline * context * dataParallelRanks, ranks) << target << ", seed " << seed;
    };
    // Returns the file for a target; empty where the target refuses the plan.
    auto fileFor = [&](ExportTarget target) {
      auto made = exportPlan(target, input, "");
      written[target] += bool(made);
      return made ? *made : ExportResult();
    };
    if (std::string megatron = fileFor(ExportTarget::Megatron).config; !megatron.empty()) {
      expect("megatron", argument(megatron, "--tensor-model-parallel-size"),
             argument(megatron, "--pipeline-model-parallel-size"), argument(megatron, "--context-parallel-size"));
      EXPECT_EQ(argument(megatron, "--global-batch-size") /
                    (dataParallelRanks * argument(megatron, "--micro-batch-size")),
                input.completed.microbatches);
    }
    if (std::string nemo = fileFor(ExportTarget::NeMo).config; !nemo.empty())
      expect("nemo", entry(nemo, "tensor_model_parallel_size", ": "),
             entry(nemo, " pipeline_model_parallel_size", ": "), entry(nemo, "context_parallel_size", ": "));
    if (std::string titan = fileFor(ExportTarget::TorchTitanPython).config; !titan.empty()) {
      EXPECT_EQ(entry(titan, "tensor_parallel_degree", "=") * entry(titan, "pipeline_parallel_degree", "=") *
                    entry(titan, "context_parallel_degree", "=") * entry(titan, "data_parallel_replicate_degree", "=") *
                    entry(titan, "data_parallel_shard_degree", "="),
                ranks)
          << "seed " << seed;
    }
    std::string accelerate = fileFor(ExportTarget::Accelerate).config;
    if (accelerate.find("distributed_type: FSDP") != std::string::npos) {
      int64_t product = 1;
      for (const char *axis : {"dp_replicate", "dp_shard", "tp", "cp", "sp"})
        product *= entry(accelerate, fmt::format("parallelism_config_{}_size", axis), ": ");
      EXPECT_EQ(product, ranks) << "seed " << seed;
    }
    if (!accelerate.empty()) {
      EXPECT_EQ(entry(accelerate, "num_processes", ": "), ranks) << "seed " << seed;
    }
    if (std::string text = fileFor(ExportTarget::Transformers).config; !text.empty()) {
      Json transformers = Json::parse(text);
      EXPECT_EQ(transformers["tp_size"].get<int64_t>() * transformers["fsdp_size"].get<int64_t>() *
                    transformers["dp_replicate_size"].get<int64_t>(),
                ranks)
          << "seed " << seed;
    }
    ExportResult deepspeed = fileFor(ExportTarget::DeepSpeed);
    if (deepspeed.config.empty())
      continue;
    Json json = Json::parse(deepspeed.config);
    EXPECT_EQ(json["train_batch_size"].get<int64_t>(), json["train_micro_batch_size_per_gpu"].get<int64_t>() *
                                                           json["gradient_accumulation_steps"].get<int64_t>() *
                                                           dataParallelRanks);
    expect("deepspeed", argument(deepspeed.launch, "--tensor-model-parallel-size"),
           argument(deepspeed.launch, "--pipeline-model-parallel-size"),
           argument(deepspeed.launch, "--ds-sequence-parallel-size"));
  }
  if (seeds().size() > 1)
    for (const auto &[target, count] : written) {
      EXPECT_GT(count, 10) << "too few of the random plans can be written for " << toString(target);
    }
}

} // namespace
