// SPDX-License-Identifier: Apache-2.0
// Compares how the targets express single decisions of a plan: experts, recomputation, schedules, optimizers, offload,
// the layout of arguments and the order of the ranks.
#include "Exported.h"

using namespace kerf;
using namespace kerf::test;

namespace {

TEST(Export, Experts) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 2, "expert": 4, "model": 2},
    "global_batch": 64, "microbatch": 1, "optimizer_sharding": 1, "sequence_parallel": true})",
                              mixtral());
  input.expertCapacity = 1.25;
  std::string megatron = exported(ExportTarget::Megatron, input).config;
  expectHas(megatron,
            {"--expert-tensor-parallel-size 2 ", "--expert-model-parallel-size 4 ", "--num-experts 8 ",
             "--moe-router-topk 2 ", "--moe-ffn-hidden-size 14336 ", "--moe-token-dispatcher-type alltoall ",
             "--moe-grouped-gemm ", "--moe-expert-capacity-factor 1.25 ", "--moe-pad-expert-input-to-capacity "});
  expectHasNot(megatron, {"--moe-router-pre-softmax", "  --ffn-hidden-size"});
  auto beside = exportPlan(ExportTarget::TorchTitanPython, input, "");
  ASSERT_FALSE(beside);
  expectHas(beside.error().message, {"4 ranks of mesh.expert", "rule experts-beside-tensor-and-context"});
  ExportInput alone = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 2, "expert": 4}, "global_batch": 64,
    "microbatch": 1, "optimizer_sharding": 1})",
                              mixtral());
  expectHas(exported(ExportTarget::TorchTitanPython, alone).config,
            {"data_parallel_shard_degree=8", "expert_parallel_degree=4", "num_experts=8", "top_k=2"});
  ExportInput flat = inputOf(R"({"kerf": 1, "mesh": {"data": 2, "expert": 4, "model": 2}, "global_batch": 64,
    "microbatch": 1, "optimizer_sharding": 0})",
                             mixtral());
  flat.expertCapacity = 1.25;
  ExportResult deepspeed = exported(ExportTarget::DeepSpeed, flat);
  expectHas(deepspeed.launch, {"--moe-expert-parallel-size 4", "--enable-expert-tensor-parallelism", "--num-experts 8",
                               "--topk 2", "--moe-train-capacity-factor 1.25"});
  auto piped = exportPlan(ExportTarget::DeepSpeed, input, "");
  ASSERT_FALSE(piped);
  expectHas(piped.error().message, {"DeepSpeed's pipelines have no layers with experts"});
  auto apex = exportPlan(ExportTarget::NeMo, input, "");
  ASSERT_FALSE(apex);
  expectHas(apex.error().message, {"Apex's distributed optimizer has no expert parallelism", "rule experts-with-apex"});
  flat.completed.plan.sequenceParallel = {true};
  expectHas(exported(ExportTarget::NeMo, flat).config,
            {"  expert_model_parallel_size: 4\n", "  num_moe_experts: 8\n", "  moe_router_topk: 2\n"});
  // Without experts, the axis expert is more data parallelism.
  ExportInput dense = inputOf(R"({"kerf": 1, "mesh": {"data": 4, "expert": 4}, "global_batch": 16})", llama3());
  expectHasNot(exported(ExportTarget::Megatron, dense).config, {"expert-model"});
  expectHas(exported(ExportTarget::TorchTitanPython, dense).config, {"data_parallel_replicate_degree=16"});
}

TEST(Export, RecomputationThatDiffersFromStageToStage) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 4}, "global_batch": 512,
    "recompute": ["selective", "selective", "none", "none"]})",
                              llama3());
  ExportResult megatron = exported(ExportTarget::Megatron, input);
  expectHas(
      megatron.config,
      {"--recompute-granularity selective ",
       "#   recompute = [\"selective\",\"selective\",\"none\",\"none\"]: one value for all stages: \"selective\""});
  for (ExportTarget target :
       {ExportTarget::Megatron, ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed, ExportTarget::NeMo})
    EXPECT_TRUE(differing(exported(target, input)).contains("recompute")) << toString(target);
  expectHas(exported(ExportTarget::TorchTitanPython, input).config, {"activation_checkpoint=SelectiveAC.Config()"});
  input.model = llama31();
  expectHas(exported(ExportTarget::TorchTitan, input).config, {"mode = \"selective\"", "selective_ac_option = \"op\""});
}

TEST(Export, RecomputationThatOnlyKerfHasBecomesFull) {
  for (const char *recompute : {R"("pointwise")", R"("except-attention")", R"(["none", "pointwise", "none", "none"])",
                                R"({"0-3": "pointwise"})", R"({"0-3": "except-attention", "4": "pointwise"})"}) {
    ExportInput input = inputOf(
        fmt::format(R"({{"kerf": 1, "mesh": {{"stage": 4}}, "global_batch": 512, "recompute": {}}})", recompute),
        llama3());
    for (ExportTarget target :
         {ExportTarget::Megatron, ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed, ExportTarget::NeMo}) {
      ExportResult result = exported(target, input);
      EXPECT_TRUE(differing(result).contains("recompute")) << toString(target);
      for (const char *mode : {"granularity pointwise", "granularity except-attention"})
        EXPECT_EQ(result.config.find(mode), std::string::npos) << toString(target);
    }
    expectHas(exported(ExportTarget::Megatron, input).config,
              {"--recompute-granularity full", "has no recomputation "});
  }
}

TEST(Export, LayersOfEachPartThatAreRecomputed) {
  std::string plan = R"({"kerf": 1, "mesh": {"stage": 4}, "global_batch": 512, "schedule": {"name": "1f1b"},
    "stages": [{"layers": [0, 7]}, {"layers": [8, 15]}, {"layers": [16, 23]}, {"layers": [24, 31]}], "recompute": )";
  ExportInput blocks =
      inputOf(plan + R"({"0-2": "full", "8-10": "full", "16-18": "full", "24-26": "full"}})", llama3());
  ExportResult megatron = exported(ExportTarget::Megatron, blocks);
  expectHas(megatron.config,
            {"--recompute-granularity full ", "--recompute-method block ", "--recompute-num-layers 3 "});
  EXPECT_FALSE(differing(megatron).contains("recompute"));
  ExportResult nemo = exported(ExportTarget::NeMo, blocks);
  expectHas(nemo.config, {"activations_checkpoint_method: \"block\"", "activations_checkpoint_num_layers: 3"});
  EXPECT_FALSE(differing(nemo).contains("recompute"));
  for (ExportTarget target : {ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed})
    EXPECT_TRUE(differing(exported(target, blocks)).contains("recompute")) << toString(target);
  // Stages differ: every part recomputes as many layers as the part that recomputes most.
  ExportResult fewer = exported(ExportTarget::Megatron, inputOf(plan + R"({"0-4": "full", "8": "full"}})", llama3()));
  expectHas(fewer.config, {"--recompute-method block ", "--recompute-num-layers 5 ", "one number for all stages: 5"});
  // Layers other than the first of a part, or two modes: all layers recompute.
  for (const char *layers : {R"({"7": "full"}})", R"({"0": "full", "*": "selective"}})"}) {
    ExportResult all = exported(ExportTarget::Megatron, inputOf(plan + layers, llama3()));
    expectHas(all.config, {"--recompute-method uniform ", "one value for all layers: \"full\""});
  }
}

/// Zero bubbles, another order of the axes, Ulysses beside experts, pins.
TEST(Export, WhatCannotBeSaid) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 4, "data": 2, "model": 2},
    "order": ["model", "data", "stage"], "global_batch": 64, "microbatch": 1,
    "schedule": {"name": "zero-bubble", "variant": "2p"},
    "optimizer_sharding": 3, "ops": {"*": {"strategy": {"m0": ["data"]}}}, "arguments": {"*": [["data"], []]},
    "notes": 5})",
                              llama3());
  for (ExportTarget target :
       {ExportTarget::Megatron, ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed, ExportTarget::NeMo}) {
    Keys keys = differing(exported(target, input));
    for (const char *key : {"order", "schedule.name", "schedule.variant", "ops", "arguments", "notes"})
      EXPECT_EQ(keys.contains(key),
                target != ExportTarget::TorchTitanPython || !std::string_view(key).starts_with("schedule"))
          << toString(target) << " " << key;
  }
  ExportInput h1 = inputOf(R"({"kerf": 1, "mesh": {"stage": 4, "data": 2}, "global_batch": 64,
    "schedule": {"name": "zero-bubble", "variant": "h1"}})",
                           llama3());
  ExportResult deepspeed = exported(ExportTarget::DeepSpeed, h1);
  expectHas(deepspeed.launch, {"--enable-zbh1-pipeline"});
  EXPECT_FALSE(differing(deepspeed).contains("schedule.name"));
}

/// TorchTitan 0.3 reads an order that none of PyTorch's schedules has from a file, with the parts of PyTorch's numbers.
TEST(Export, OrdersThatTorchTitanReads) {
  auto with = [](const char *schedule, const char *more = "", const char *dtype = "bf16", int64_t batch = 3) {
    return inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"stage": 2, "data": 1}}, "global_batch": {}, "microbatch": 1,
      "optimizer_sharding": 3, "schedule": {}{}}})",
                               batch, schedule, more),
                   llama3(), dtype);
  };
  const char *plain = R"({"name": "1f1b"})", *twoChunks = R"({"name": "interleaved", "chunks": 2})",
             *h1 = R"({"name": "zero-bubble", "variant": "h1"})";
  const char *sends = R"(, "overlap": ["gradients", "parameters", "stage"])",
             *waits = R"(, "overlap": ["gradients", "parameters"])";
  ExportResult named = exported(ExportTarget::TorchTitanPython, with(plain, waits));
  EXPECT_EQ(named.schedule, "");
  expectHas(named.config, {"pipeline_parallel_schedule=\"1F1B\""});
  expectHasNot(named.config, {"schedule_csv", "SCHEDULE"});
  ExportResult read = exported(ExportTarget::TorchTitanPython, with(plain, sends), "jobs/my.py");
  EXPECT_EQ(read.schedule, "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  expectHas(read.config, {"pipeline_parallel_schedule_csv=SCHEDULE", "\"my.schedule.csv\"",
                          "# It reads the order of the stages' tasks from my.schedule.csv"});
  expectHasNot(read.config, {"donated_buffer"});
  EXPECT_EQ(schedulePath("jobs/my.py"), "jobs/my.schedule.csv");
  auto dotted = exportPlan(ExportTarget::TorchTitanPython, with(plain, sends), "jobs/v0.3.py");
  ASSERT_FALSE(dotted);
  expectHas(dotted.error().message, {"'jobs/v0.3.py' cannot be imported", "torchtitan_job.py"});
  for (const char *overlap : {sends, waits})
    EXPECT_FALSE(differing(exported(ExportTarget::TorchTitanPython, with(plain, overlap))).contains("overlap"));
  // Fewer microbatches than stages, and rounds of different sizes, which PyTorch's own schedules refuse.
  EXPECT_EQ(exported(ExportTarget::TorchTitanPython, with(plain, waits, "bf16", 1)).schedule, "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(exported(ExportTarget::TorchTitanPython, with(twoChunks, sends, "bf16", 4)).schedule, "");
  std::string odd = exported(ExportTarget::TorchTitanPython, with(twoChunks, sends, "bf16", 5)).schedule;
  EXPECT_TRUE(odd.starts_with("0F0,0F1,0F2,2F0,")) << odd;
  // A split backward: every microbatch has both halves.
  ExportResult split = exported(ExportTarget::TorchTitanPython, with(h1, sends));
  expectHas(split.config, {"torch._functorch.config.donated_buffer = False", "import torch._functorch.config\n",
                           "pipeline_parallel_schedule=\"1F1B\""});
  for (const char *task : {"0F0", "0I0", "0W0", "1F2", "1I2", "1W2"})
    EXPECT_NE(split.schedule.find(task), std::string::npos) << task;
  EXPECT_EQ(split.schedule.find('B'), std::string::npos);
  EXPECT_FALSE(differing(split).contains("schedule.name"));
  auto recomputed = exportPlan(ExportTarget::TorchTitanPython, with(h1, R"(, "recompute": "full")"), "");
  ASSERT_FALSE(recomputed);
  expectHas(recomputed.error().message, {"rule zero-bubble-without-recomputation", "is full"});
  auto compiled = exportPlan(ExportTarget::TorchTitanPython, with(h1, sends, "f8"), "");
  ASSERT_FALSE(compiled);
  expectHas(compiled.error().message, {"rule zero-bubble-without-compilation", "--dtype bf16"});
}

/// Megatron-LM's core has Muon, but only without FSDP.
TEST(Export, MuonInMegatron) {
  auto with = [](const char *more) {
    ExportInput input = inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"data": 4, "model": 2}}, "global_batch": 8,
      {}}})",
                                            more),
                                llama3());
    input.optimizer = {
        "muon",
        {{"momentum", 0.95}, {"nesterov", 1}, {"ns-steps", 6}, {"match-rms", 1}, {"eps", 1e-7}, {"weight-decay", 0.1}},
        0,
        {}};
    return input;
  };
  const char *overlaps = R"("overlap": ["gradients", "parameters", "tensor"])";
  ExportInput whole = with(R"("optimizer_sharding": 0, "overlap": ["tensor"])");
  std::string script = exported(ExportTarget::Megatron, whole).config;
  expectHas(script, {"--optimizer muon ", "--muon-momentum 0.95 ", "--muon-nesterov ", "--muon-num-ns-steps 6 ",
                     "--muon-scale-mode spectral ", "--muon-extra-scale-factor 0.2 ", "--muon-tp-mode distributed ",
                     "--weight-decay 0.1 "});
  expectHasNot(script, {"--overlap-grad-reduce", "--use-distributed-optimizer", "--adam-beta1"});
  EXPECT_FALSE(differing(exported(ExportTarget::Megatron, whole)).contains("overlap"));
  ExportInput sharded = with(fmt::format(R"("optimizer_sharding": 1, {})", overlaps).c_str());
  ExportResult layers = exported(ExportTarget::Megatron, sharded);
  expectHas(layers.config,
            {"--optimizer muon ", "--overlap-grad-reduce ", "--overlap-param-gather ", "--use-distributed-optimizer "});
  EXPECT_FALSE(differing(layers).contains("overlap"));
  EXPECT_FALSE(differing(layers).contains("optimizer_sharding"));
  ExportInput fsdp = with(R"("optimizer_sharding": 3)");
  expectHasNot(exported(ExportTarget::Megatron, fsdp).config, {"--use-megatron-fsdp"});
  EXPECT_TRUE(differing(exported(ExportTarget::Megatron, fsdp)).contains("optimizer_sharding"));
  EXPECT_TRUE(differing(exported(ExportTarget::MegatronBridge, sharded)).contains("optimizer_sharding"));
  sharded.optimizer.settings["match-rms"] = 0;
  sharded.optimizer.settings["nesterov"] = 0;
  std::string bridge = exported(ExportTarget::MegatronBridge, sharded).config;
  expectHas(bridge, {"optimizer=\"dist_muon\"", "muon_momentum=0.95", "muon_scale_mode=\"shape_scaling\"",
                     "muon_num_ns_steps=6", "end_weight_decay=0.1"});
  expectHasNot(bridge, {"muon_nesterov", "muon_extra_scale_factor"});
  expectHasNot(bridge, {"use_distributed_optimizer"});
  for (ExportTarget target : {ExportTarget::MsSwift, ExportTarget::NeMo}) // their versions do not have it
    expectHasNot(exported(target, whole).config, {"muon_momentum", "muon_num_ns_steps"});
  sharded.job.dtype = "f16";
  auto half = exportPlan(ExportTarget::Megatron, sharded, "");
  ASSERT_FALSE(half);
  expectHas(half.error().message, {"rule muon-in-f16"});
}

/// Megatron-LM keeps the last layer's activations on the device.
TEST(Export, OffloadOfAllButTheLastLayer) {
  auto with = [](const char *recompute) {
    return inputOf(
        fmt::format(R"({{"kerf": 1, "mesh": {{"data": 8}}, "global_batch": 8, "recompute": {}}})", recompute),
        llama3());
  };
  ExportResult exact = exported(ExportTarget::Megatron, with(R"({"0-30": "offload"})"));
  expectHas(exact.config, {"--cpu-offloading-num-layers 31"});
  EXPECT_FALSE(differing(exact).contains("recompute"));
  for (const char *other : {R"("offload")", R"({"0-29": "offload"})", R"({"0-30": "offload", "31": "full"})"}) {
    ExportResult made = exported(ExportTarget::Megatron, with(other));
    expectHas(made.config, {"--cpu-offloading-num-layers 31"});
    EXPECT_TRUE(differing(made).contains("recompute")) << other;
  }
}

/// Compares the arguments of a plan that was searched op by op with Megatron-LM's layout.
TEST(Export, ArgumentsAsMegatronCutsThem) {
  ModelSizes m = gpt3();
  using Dimension = MegatronSharding::Dimension;
  m.cuts = {{"wte.weight", Dimension::First},
            {"h.*.attn.c_attn.weight", Dimension::NotFirst},
            {"h.*.attn.c_attn.bias", Dimension::Any},
            {"h.*.attn.c_proj.weight", Dimension::NotLast}};
  auto decided = [&](const char *arguments) {
    ExportInput input = inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"data": 2, "model": 2}}, "global_batch": 2,
      "attention": "unfused", "arguments": {{{}}}}})",
                                            arguments),
                                m, "f32");
    ExportResult e = exported(ExportTarget::Megatron, input);
    for (const ExportDecision &decision : e.decisions)
      if (decision.key == "arguments")
        return std::string(decision.kind == ExportDecision::Kind::Expressed ? "same: " : "other: ") + decision.text;
    return std::string();
  };
  EXPECT_EQ(
      decided(R"("input_ids": [["data"], []], "wte.weight": [["model"], []], "exp_avg/wte.weight": [["model"], []],
    "h.*.attn.c_attn.weight": [[], [], ["model"], []], "h.*.attn.c_attn.bias": [[], ["model"], []],
    "h.*.attn.c_proj.weight": [["model"], [], []], "h.*.attn.c_proj.bias": [[]], "@layer#0": [["data"]], "step": [])"),
      "same: Megatron-LM's layout shards all 8 the same way");
  for (const char *other :
       {R"("wte.weight": [[], ["model"]])", R"("wte.weight": [["data"], []])",
        R"("wte.weight": [["model", "data"], []])", R"("wte.weight": [[], []])",
        R"("h.*.attn.c_attn.weight": [["model"], [], [], []])", R"("h.*.attn.c_proj.weight": [[], [], ["model"]])",
        R"("h.*.attn.c_proj.bias": [["model"]])", R"("input_ids": [[], ["data"]])", R"("input_ids": [["model"], []])"})
    expectHas(decided(other), {"other: ", "shards 1 of 1 differently, the first of them "});
}

TEST(Export, OrderOfTheRanks) {
  auto with = [](const char *order, const ModelSizes &model) {
    return inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"stage": 2, "data": 2, "context": 2, "model": 2}},
      "order": {}, "global_batch": 16}})",
                               order),
                   model);
  };
  ExportInput usual = with(R"(["stage", "data", "context", "model"])", llama3());
  ExportInput other = with(R"(["data", "stage", "context", "model"])", llama3());
  expectHasNot(exported(ExportTarget::Megatron, usual).config, {"--use-tp-pp-dp-mapping"});
  expectHas(exported(ExportTarget::Megatron, other).config, {"--use-tp-pp-dp-mapping ", "--cp-comm-type p2p "});
  EXPECT_FALSE(differing(exported(ExportTarget::Megatron, other)).contains("order"));
  EXPECT_TRUE(differing(exported(ExportTarget::NeMo, other)).contains("order"));
  // With both experts and context, Megatron-LM's groups of experts span the groups of context.
  ExportInput both =
      inputOf(R"({"kerf": 1, "mesh": {"data": 2, "context": 2, "expert": 2}, "global_batch": 16})", mixtral());
  EXPECT_TRUE(differing(exported(ExportTarget::Megatron, both)).contains("order"));
}

} // namespace
