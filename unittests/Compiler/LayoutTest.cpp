// SPDX-License-Identifier: Apache-2.0
// Tests of layouts with more ranks than key/value heads, and with context parallelism. FLOP, saved activations,
// parameters and communication of the ranks are compared with closed forms.
#include "kerf/Compiler/Simulate.h"
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kerf;

namespace {

struct Llama {
  int64_t layers = 4, hidden = 256, heads = 16, keyHeads = 4, headSize = 16, inner = 512, vocabulary = 1024,
          sequence = 64;
};

constexpr double kBytes = 2, kBatch = 2; // bf16, one microbatch of two samples

Result<SimulatedPlan> simulated(const std::string &config, Plan plan, const Trainer &trainer = ownTrainer()) {
  std::string path = std::filesystem::temp_directory_path() / fmt::format("kerf-layout-{}.json", getpid());
  std::ofstream(path) << config;
  auto cluster = readCluster(std::string(KERF_SOURCE_DIR) + "/clusters/dgx-a100.json");
  if (!cluster)
    return cluster.error();
  plan.globalBatch = 2 * (plan.meshSizes.contains("data") ? plan.meshSizes["data"] : 1);
  plan.meshSizes.try_emplace("data", 1);
  plan.microbatch = 2;
  SimulateOptions options;
  options.dtype = "bf16";
  options.trainer = &trainer;
  auto context = createContext();
  auto result = simulatePlan(*context, path, plan, "the plan", *cluster, options);
  std::filesystem::remove(path);
  return result;
}

Result<SimulatedPlan> simulated(const Llama &model, Plan plan, const Trainer &trainer = ownTrainer()) {
  return simulated(
      fmt::format(
          "{{\"model_type\": \"llama\", \"num_hidden_layers\": {}, \"hidden_size\": {}, \"num_attention_heads\": {}, "
          "\"num_key_value_heads\": {}, \"head_dim\": {}, \"intermediate_size\": {}, \"vocab_size\": {}, "
          "\"max_position_embeddings\": {}}}",
          model.layers, model.hidden, model.heads, model.keyHeads, model.headSize, model.inner, model.vocabulary,
          model.sequence),
      std::move(plan), trainer);
}

SimulatedPlan simulatedOk(const Llama &model, const Plan &plan, const Trainer &trainer = ownTrainer()) {
  auto result = simulated(model, plan, trainer);
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::move(*result) : SimulatedPlan();
}

Plan planOf(std::map<std::string, int64_t> mesh, std::string style = "", bool sequenceParallel = false) {
  Plan plan;
  plan.meshSizes = std::move(mesh);
  plan.contextStyle = parsePlanWord<ContextStyle>(style);
  plan.sequenceParallel = {sequenceParallel};
  return plan;
}

const Segment &layerOf(const SimulatedPlan &simulated) {
  for (const Part &part : simulated.work.parts)
    for (const Segment &segment : part.segments)
      if (segment.recomputable)
        return segment;
  static const Segment none;
  ADD_FAILURE() << "no layer";
  return none;
}

double flopsOf(const PassWork &pass, KernelClass kernelClass) {
  double flops = 0;
  for (const KernelWork &kernel : pass.kernels)
    if (kernel.work.kernelClass == kernelClass)
      flops += kernel.work.flops;
  return flops;
}

double savedBytes(const Segment &segment) {
  double bytes = 0;
  for (const SavedTensor &tensor : segment.saved)
    bytes += tensor.bytes;
  return bytes;
}

double elementsOf(const std::vector<ParameterGroup> &groups) {
  double elements = 0;
  for (const ParameterGroup &group : groups)
    elements += group.elements;
  return elements;
}

std::string axisName(const SimulatedPlan &simulated, const PassCollective &collective) {
  std::string names;
  for (const AxisRef &ref : collective.axes)
    names +=
        fmt::format("{}{}({}){}", names.empty() ? "" : " ", simulated.mesh.axes[ref.axis].name, ref.before, ref.size);
  return names;
}

/// Returns the collectives as sorted texts of count, kind, axes and bytes: "2 all_reduce model(1)8 65536".
std::vector<std::string> summary(const SimulatedPlan &simulated, const PassWork &pass) {
  std::map<std::string, int> counts;
  for (const PassCollective &one : pass.collectives)
    ++counts[fmt::format("{} {} {}{}", toString(one.kind), axisName(simulated, one), one.bytes,
                         one.hops > 1 || one.overlapsAttention ? fmt::format(" x {}", one.hops) : "")];
  std::vector<std::string> lines;
  for (const auto &[what, count] : counts)
    lines.push_back(fmt::format("{} {}", count, what));
  return lines;
}

using Lines = std::vector<std::string>;

//===-- more ranks than heads of keys and values -------------------------===//

struct Heads {
  int64_t heads, keyHeads, model;
  int64_t onBusiestRank; // query heads that the busiest rank computes, counted by hand
};

class FewKeyHeads : public testing::TestWithParam<Heads> {};

TEST_P(FewKeyHeads, CutQueriesBeyondThem) {
  const auto &[heads, keyHeads, model, onBusiestRank] = GetParam();
  Llama llama;
  llama.heads = heads, llama.keyHeads = keyHeads;
  llama.hidden = 4096, llama.headSize = 128, llama.sequence = 4096; // large enough that attention matters
  const SimulatedPlan whole = simulatedOk(llama, planOf({{"model", 1}})),
                      cut = simulatedOk(llama, planOf({{"model", model}}));
  double share = static_cast<double>(onBusiestRank) / static_cast<double>(heads);
  EXPECT_DOUBLE_EQ(flopsOf(layerOf(cut).forward, KernelClass::Attention),
                   share * flopsOf(layerOf(whole).forward, KernelClass::Attention));
  EXPECT_DOUBLE_EQ(flopsOf(layerOf(cut).inputGradient, KernelClass::Attention),
                   share * flopsOf(layerOf(whole).inputGradient, KernelClass::Attention));
}

INSTANTIATE_TEST_SUITE_P(Sizes, FewKeyHeads,
                         testing::Values(Heads{16, 4, 4, 4},  // one key head for each rank
                                         Heads{16, 4, 8, 2},  // two ranks share a key head
                                         Heads{16, 4, 16, 1}, // one query head for each rank
                                         Heads{16, 1, 8, 2},  // all ranks share one key head
                                         Heads{12, 4, 8, 3},  // 3 query heads per key head cannot be split in two
                                         Heads{24, 4, 16,
                                               3}, // 6 query heads per key head are split in two, not in four
                                         Heads{64, 8, 12, 16},  // 4 shards, replicated 3 times
                                         Heads{16, 8, 6, 4},    // two key heads for each rank, or none
                                         Heads{12, 12, 16, 2},  // without groups: 8 shards, replicated twice
                                         Heads{12, 12, 8, 2})); // the last rank has padding

TEST(KeyHeadCopies, AreMegatrons) {
  // Two ranks replicate a key/value head and its projections, and each computes half of its query heads.
  const Llama llama;
  const double model = 8, h = llama.hidden, d = llama.headSize, tokens = kBatch * llama.sequence;
  for (bool sequenceParallel : {false, true}) {
    const SimulatedPlan result = simulatedOk(llama, planOf({{"model", 8}}, "", sequenceParallel));
    const Segment &layer = layerOf(result);
    const double copied = 2 * h * d; // elements of the key and value projections of one head
    const double queries = h * llama.heads * d / model, mlp = 3 * h * llama.inner / model;
    EXPECT_DOUBLE_EQ(elementsOf(layer.parameters), copied + 2 * queries + mlp + 2 * h);
    const double products = 2 * tokens * (copied + 2 * queries + mlp);
    EXPECT_DOUBLE_EQ(flopsOf(layer.forward, KernelClass::Product), products);
    EXPECT_DOUBLE_EQ(flopsOf(layer.inputGradient, KernelClass::Product), products);
    EXPECT_DOUBLE_EQ(flopsOf(layer.weightGradient, KernelClass::Product), products);
    // The replicas need no collectives of their own within a pass; the all-reduces of the residual stream suffice.
    const double stream = kBytes * tokens * h;
    if (!sequenceParallel) {
      const Lines sums{fmt::format("2 all_reduce model(1)8 {}", stream)};
      EXPECT_EQ(summary(result, layer.forward), sums);
      EXPECT_EQ(summary(result, layer.inputGradient), sums);
      EXPECT_EQ(summary(result, layer.weightGradient), Lines());
    } else {
      const Lines pairs{fmt::format("2 all_gather model(1)8 {}", stream),
                        fmt::format("2 reduce_scatter model(1)8 {}", stream)};
      EXPECT_EQ(summary(result, layer.forward), pairs);
      EXPECT_EQ(summary(result, layer.inputGradient), pairs);
    }
    // Weight gradients do not wait for the all-reduce of the stream's gradient.
    for (const PassCollective &collective : layer.inputGradient.collectives)
      EXPECT_TRUE(collective.independent || collective.kind == Collective::AllGather) << collective.name;
    // The gradients of the replicas are added once per step.
    EXPECT_DOUBLE_EQ(elementsOf(layer.copied), copied);
    for (const ParameterGroup &group : layer.copied)
      EXPECT_EQ(group.reduceAxes, (std::vector<AxisRef>{{result.mesh.find("model"), 4, 2}})) << group.name;
  }
  const SimulatedPlan plain = simulatedOk(llama, planOf({{"model", 4}}, "", true));
  EXPECT_TRUE(layerOf(plain).copied.empty());
  EXPECT_EQ(summary(plain, layerOf(plain).inputGradient).back(),
            fmt::format("2 reduce_scatter model(1)4 {}", kBytes * tokens * h));
}

/// Falcon's joint projection of queries, keys and values is replicated, while its attention is sharded as in other
/// models.
TEST(KeyHeadCopies, TakeAFusedProjectionWithThem) {
  Llama llama;
  llama.hidden = llama.heads * llama.headSize;
  const std::string falcon = fmt::format(
      "{{\"model_type\": \"falcon\", \"num_hidden_layers\": {}, \"hidden_size\": {}, \"num_attention_heads\": {}, "
      "\"num_kv_heads\": {}, \"new_decoder_architecture\": true, \"vocab_size\": {}, \"alibi\": false, \"bias\": "
      "false}}",
      llama.layers, llama.hidden, llama.heads, llama.keyHeads, llama.vocabulary);
  auto whole = simulated(falcon, planOf({{"model", 1}})), cut = simulated(falcon, planOf({{"model", 8}}));
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_DOUBLE_EQ(8 * flopsOf(layerOf(*cut).forward, KernelClass::Attention),
                   flopsOf(layerOf(*whole).forward, KernelClass::Attention));
  const double h = llama.hidden, d = llama.headSize,
               ofGroup = llama.heads / llama.keyHeads + 2; // and a key and a value
  double fused = 0;
  for (const ParameterGroup &group : layerOf(*cut).parameters)
    fused += group.name.find("query_key_value") != std::string::npos ? group.elements : 0;
  EXPECT_DOUBLE_EQ(fused, h * ofGroup * d);
}

//===-- context ----------------------------------------------------------===//

struct Cut {
  int64_t data, context, model;
  bool sequenceParallel;
};

class CutSequence : public testing::TestWithParam<std::tuple<Cut, const char *>> {
protected:
  const Cut cut = std::get<0>(GetParam());
  const std::string style = std::get<1>(GetParam());
  const Llama llama;
  SimulatedPlan of(int64_t context) const {
    return simulatedOk(
        llama, planOf({{"data", cut.data}, {"context", context}, {"model", cut.model}}, style, cut.sequenceParallel));
  }
};

TEST_P(CutSequence, WorkAndActivationsAreSharedAndParametersAreNot) {
  const SimulatedPlan whole = of(1), shared = of(cut.context);
  const Segment &before = layerOf(whole), &after = layerOf(shared);
  const auto ways = static_cast<double>(cut.context);
  for (KernelClass kernelClass : {KernelClass::Product, KernelClass::Attention}) {
    EXPECT_DOUBLE_EQ(ways * flopsOf(after.forward, kernelClass), flopsOf(before.forward, kernelClass));
    EXPECT_DOUBLE_EQ(ways * flopsOf(after.inputGradient, kernelClass), flopsOf(before.inputGradient, kernelClass));
    EXPECT_DOUBLE_EQ(ways * flopsOf(after.weightGradient, kernelClass), flopsOf(before.weightGradient, kernelClass));
  }
  EXPECT_DOUBLE_EQ(ways * savedBytes(after), savedBytes(before));
  EXPECT_DOUBLE_EQ(ways * after.inputBytes, before.inputBytes);
  EXPECT_DOUBLE_EQ(shared.work.modelFlops, whole.work.modelFlops);
  EXPECT_DOUBLE_EQ(shared.work.tokens, whole.work.tokens);
  ASSERT_EQ(shared.work.parts.size(), whole.work.parts.size());
  const std::vector<Segment> &segments = shared.work.parts[0].segments;
  for (size_t s = 0; s < segments.size(); ++s) {
    EXPECT_DOUBLE_EQ(elementsOf(segments[s].parameters), elementsOf(whole.work.parts[0].segments[s].parameters));
    for (const ParameterGroup &group : segments[s].parameters)
      EXPECT_EQ(ways * static_cast<double>(cut.data), static_cast<double>(kerf::shardCount(group.reduceAxes)))
          << group.name;
  }
  // The loss is sharded too, but the labels are replicated.
  EXPECT_DOUBLE_EQ(ways * flopsOf(segments.back().forward, KernelClass::Product),
                   flopsOf(whole.work.parts[0].segments.back().forward, KernelClass::Product));
  double labels = 8 * kBatch * static_cast<double>(llama.sequence),
         count = kBytes; // number of labels that are not ignored
  EXPECT_DOUBLE_EQ(ways * (savedBytes(segments.back()) - labels - count),
                   savedBytes(whole.work.parts[0].segments.back()) - labels - count);
}

TEST_P(CutSequence, OnlyAttentionSpeaksOverIt) {
  const SimulatedPlan result = of(cut.context);
  const Segment &layer = layerOf(result);
  const double rows = kBytes * kBatch * llama.sequence / cut.context / cut.model * llama.headSize;
  const double keyValues = 2 * rows * llama.keyHeads;
  auto overContext = [&](const PassWork &pass) {
    Lines lines;
    for (const std::string &line : summary(result, pass))
      if (line.find("context") != std::string::npos)
        lines.push_back(line);
    return lines;
  };
  if (style == "ring") {
    auto ring = [&](double bytes) {
      return Lines{fmt::format("1 collective_permute context(1){} {} x {}", cut.context, bytes, cut.context - 1)};
    };
    EXPECT_EQ(overContext(layer.forward), ring(keyValues));
    EXPECT_EQ(overContext(layer.inputGradient), ring(2 * keyValues)); // and their gradients
  } else {
    // All-to-alls of keys and values, of queries, and of the result, and as many for the gradients.
    const Lines exchanges{fmt::format("2 all_to_all context(1){} {}", cut.context, rows * llama.heads),
                          fmt::format("2 all_to_all context(1){} {}", cut.context, rows * llama.keyHeads)};
    EXPECT_EQ(overContext(layer.forward), exchanges);
    EXPECT_EQ(overContext(layer.inputGradient), exchanges);
  }
  EXPECT_EQ(overContext(layer.weightGradient), Lines());
}

TEST_P(CutSequence, TheCutOfModelIsMegatronsOnWhatIsLeft) {
  const SimulatedPlan result = of(cut.context);
  const double stream = kBytes * kBatch * llama.sequence / cut.context * llama.hidden;
  Lines wanted;
  if (cut.model > 1 && !cut.sequenceParallel)
    wanted = {fmt::format("2 all_reduce model(1){} {}", cut.model, stream)};
  if (cut.model > 1 && cut.sequenceParallel)
    wanted = {fmt::format("2 all_gather model(1){} {}", cut.model, stream),
              fmt::format("2 reduce_scatter model(1){} {}", cut.model, stream)};
  for (const PassWork *pass : {&layerOf(result).forward, &layerOf(result).inputGradient}) {
    Lines lines;
    for (const std::string &line : summary(result, *pass))
      if (line.find("model") != std::string::npos)
        lines.push_back(line);
    EXPECT_EQ(lines, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, CutSequence,
                         testing::Combine(testing::Values(Cut{1, 2, 1, false}, Cut{2, 4, 1, false}, Cut{1, 2, 2, false},
                                                          Cut{2, 2, 2, true}),
                                          testing::Values("ring", "ulysses")));

/// A model with learned positions, biases and a tied table: within a pass, only numbers of the loss are summed over
/// context besides.
TEST(Context, LeavesAllButAttentionAlone) {
  const std::string gpt =
      "{\"model_type\": \"gpt2\", \"n_layer\": 4, \"n_embd\": 256, \"n_head\": 8, \"vocab_size\": 1024, "
      "\"n_positions\": 128}";
  for (bool sequenceParallel : {false, true}) {
    auto result = simulated(gpt, planOf({{"context", 4}, {"model", 2}}, "ring", sequenceParallel));
    ASSERT_TRUE(result) << result.error().message;
    for (const Segment &segment : result->work.parts[0].segments)
      for (const PassWork *pass : {&segment.forward, &segment.inputGradient, &segment.weightGradient})
        for (const PassCollective &one : pass->collectives)
          EXPECT_TRUE(one.overlapsAttention || one.bytes <= 8 || axisName(*result, one) == "model(1)2")
              << segment.name << ": " << one.name << " over " << axisName(*result, one) << ", " << one.bytes;
  }
}

/// In Megatron-LM of 2021 each rank of `model` sends a share to the next stage, whose ranks gather the shares; in Kerf
/// each rank sends its whole activation.
TEST(Context, StagesSendTheirPartOfTheSequence) {
  const Llama llama;
  const double stream = kBytes * kBatch * static_cast<double>(llama.sequence * llama.hidden);
  for (const char *name : {"kerf", "megatron-2021"})
    for (bool sequenceParallel : {false, true}) {
      const bool shares = name == std::string("megatron-2021") && !sequenceParallel;
      const SimulatedPlan result = simulatedOk(
          llama, planOf({{"stage", 2}, {"context", 2}, {"model", 2}}, "", sequenceParallel), *findTrainer(name));
      EXPECT_DOUBLE_EQ(result.work.message.bytes, shares || sequenceParallel ? stream / 4 : stream / 2) << name;
      ASSERT_EQ(result.work.message.afterReceive.size(), shares ? 1u : 0u) << name;
      if (shares) {
        EXPECT_DOUBLE_EQ(result.work.message.afterReceive[0].bytes, stream / 2);
      }
    }
}

TEST(ContextStyles, SayWhatTheyCannotCut) {
  Llama llama;
  auto message = [&](const Plan &plan) {
    auto result = simulated(llama, plan);
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_NE(message(planOf({{"context", 8}}, "ulysses")).find("4 key/value heads over 8 ranks"), std::string::npos);
  EXPECT_NE(message(planOf({{"context", 4}, {"model", 2}}, "ulysses")).find("\"ring\""), std::string::npos);
  EXPECT_NE(message(planOf({{"context", 64}})).find("128 chunks"), std::string::npos);
  Plan unfused = planOf({{"context", 2}});
  unfused.attention = AttentionKernels::Unfused;
  EXPECT_NE(message(unfused).find("ring attention is a fused kernel"), std::string::npos);
  unfused.contextStyle = ContextStyle::Ulysses;
  EXPECT_EQ(message(unfused), "accepted");
}

/// Ring attention whose blocks arrive while others are computed costs only contention; longer transfers are partly
/// exposed.
TEST(Ring, HidesBehindAttentionAlone) {
  SimulatedPlan result = simulatedOk(Llama(), planOf({{"context", 4}}));
  auto cluster = readCluster(std::string(KERF_SOURCE_DIR) + "/clusters/dgx-a100.json");
  ASSERT_TRUE(cluster);
  auto first = firstRanks(*cluster, 4);
  ASSERT_TRUE(first);
  CollectiveModel collectives(result.mesh, *first);
  StepPlan plan;
  plan.schedule.microbatches = 1;
  enum class Passing { On, Off };
  auto seconds = [&](double flops, Passing passing) { // exposed seconds, and all seconds, of collectives over context
    StepWork work = result.work;
    for (Part &part : work.parts)
      for (Segment &segment : part.segments) {
        for (PassWork *pass : {&segment.forward, &segment.inputGradient, &segment.weightGradient}) {
          for (KernelWork &kernel : pass->kernels)
            kernel.work.flops *= kernel.work.kernelClass == KernelClass::Attention ? flops : 1;
          if (passing == Passing::Off)
            std::erase_if(pass->collectives, [](const PassCollective &one) { return one.overlapsAttention; });
        }
        for (ParameterGroup &group : segment.parameters)
          group.reduceAxes.clear();
      }
    auto simulation = simulate(work, plan, collectives);
    EXPECT_TRUE(simulation) << simulation.error().message;
    return std::pair{simulation->breakdown.exposed["context"], simulation->breakdown.collectives["context"]};
  };
  auto [exposed, all] = seconds(1e-9, Passing::On);
  auto [exposedWithout, allWithout] = seconds(1e-9, Passing::Off); // only the collectives of the loss
  EXPECT_GT(exposed - exposedWithout, 0.5 * (all - allWithout));   // launches of the kernels hide some
  EXPECT_GT(all, allWithout);
  EXPECT_DOUBLE_EQ(seconds(1e6, Passing::On).first, exposedWithout);
}

} // namespace
