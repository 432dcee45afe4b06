// SPDX-License-Identifier: Apache-2.0
// Families whose layers have experts, from a Hugging Face config.json: parameters as Transformers counts them, kinds of
// layers, slots, weights of each expert in a file, and every mistake named.
#include "Configurations.h"

#include <cmath>

namespace kerf {
namespace {

using Mixtures = Configuration;

/// The keys of the published configurations.
const json kDeepseekV2 = {{"model_type", "deepseek_v2"},
                          {"hidden_size", 5120},
                          {"intermediate_size", 12288},
                          {"moe_intermediate_size", 1536},
                          {"num_hidden_layers", 60},
                          {"num_attention_heads", 128},
                          {"num_key_value_heads", 128},
                          {"n_shared_experts", 2},
                          {"n_routed_experts", 160},
                          {"moe_layer_freq", 1},
                          {"num_experts_per_tok", 6},
                          {"first_k_dense_replace", 1},
                          {"topk_method", "group_limited_greedy"},
                          {"n_group", 8},
                          {"topk_group", 3},
                          {"routed_scaling_factor", 16.0},
                          {"norm_topk_prob", false},
                          {"scoring_func", "softmax"},
                          {"max_position_embeddings", 163840},
                          {"rope_theta", 10000},
                          {"rope_scaling",
                           {{"type", "yarn"},
                            {"factor", 40},
                            {"beta_fast", 32},
                            {"beta_slow", 1},
                            {"mscale", 0.707},
                            {"mscale_all_dim", 0.707},
                            {"original_max_position_embeddings", 4096}}}};
const json kDeepseekV3 = {{"model_type", "deepseek_v3"},
                          {"topk_method", "noaux_tc"},
                          {"scoring_func", "sigmoid"},
                          {"num_nextn_predict_layers", 1},
                          {"max_position_embeddings", 163840},
                          {"rope_theta", 10000},
                          {"rope_scaling",
                           {{"type", "yarn"},
                            {"factor", 40},
                            {"beta_fast", 32},
                            {"beta_slow", 1},
                            {"mscale", 1.0},
                            {"mscale_all_dim", 1.0},
                            {"original_max_position_embeddings", 4096}}}};

TEST_F(Mixtures, HaveTheParametersOfPublishedModels) {
  struct Row {
    const char *model;
    json config;
    int64_t parameters;
  };
  const Row rows[] = {
      {"Mixtral-8x7B", {{"model_type", "mixtral"}}, 46702792704},
      {"Mixtral-8x22B",
       {{"model_type", "mixtral"},
        {"hidden_size", 6144},
        {"num_hidden_layers", 56},
        {"num_attention_heads", 48},
        {"intermediate_size", 16384}},
       140620634112},
      {"Qwen1.5-MoE-A2.7B", {{"model_type", "qwen2_moe"}}, 14315784192},
      {"Qwen3-30B-A3B",
       {{"model_type", "qwen3_moe"}, {"num_hidden_layers", 48}, {"head_dim", 128}, {"norm_topk_prob", true}},
       30532122624},
      {"OLMoE-1B-7B-0924", {{"model_type", "olmoe"}, {"intermediate_size", 1024}}, 6919161856},
      {"DeepSeek-V2-Lite",
       {{"model_type", "deepseek_v2"},
        {"hidden_size", 2048},
        {"intermediate_size", 10944},
        {"moe_intermediate_size", 1408},
        {"num_hidden_layers", 27},
        {"num_attention_heads", 16},
        {"num_key_value_heads", 16},
        {"q_lora_rank", nullptr},
        {"num_experts_per_tok", 6},
        {"first_k_dense_replace", 1}},
       15706484224},
      {"DeepSeek-V2", kDeepseekV2, 235741434880},
      {"DeepSeek-V3", kDeepseekV3, 671026404352},
  };
  for (const Row &row : rows) {
    Imported imported = import(row.config, 1, 16);
    ASSERT_TRUE(bool(imported.model)) << row.model << ": " << imported.model.error().message;
    EXPECT_EQ(parameters(imported), row.parameters) << row.model;
  }
}

/// "FUNCTION xCALLS of SCOPE" of each run of calls.
std::vector<std::string> runsOf(Imported &imported) {
  std::vector<std::string> runs;
  std::vector<ir::CallOp> calls = imported.ops<ir::CallOp>();
  for (size_t begin = 0, end = 0; begin < calls.size(); begin = end) {
    while (end < calls.size() && calls[end].getCallee() == calls[begin].getCallee())
      ++end;
    auto repeat = calls[begin]->getAttrOfType<mlir::IntegerAttr>(ir::KerfDialect::kRepeatAttr);
    runs.push_back(calls[begin].getCallee().str() + " x" + std::to_string(repeat ? repeat.getInt() : end - begin) +
                   " of " + ir::nodeName(calls[begin].getLoc()));
  }
  return runs;
}

TEST_F(Mixtures, EmitsTheDenseLayersBeforeThoseWithExperts) {
  auto runs = [&](const json &config, bool structureOnly) {
    write("config.json", config.dump());
    ImportOptions options;
    options.sequence = 16;
    options.structureOnly = structureOnly;
    Imported imported = importFile(path, options);
    EXPECT_TRUE(bool(imported.model)) << imported.model.error().message;
    return imported.model ? runsOf(imported) : std::vector<std::string>();
  };
  for (bool structureOnly : {false, true}) {
    EXPECT_EQ(runs(kDeepseekV3, structureOnly),
              (std::vector<std::string>{"dense_layer x3 of model.layers.0", "layer x58 of model.layers.3"}));
    EXPECT_EQ(runs(with(kDeepseekV3, "first_k_dense_replace", 0), structureOnly),
              (std::vector<std::string>{"layer x61 of model.layers.0"}));
    EXPECT_EQ(runs(with(kDeepseekV3, "first_k_dense_replace", 70), structureOnly),
              (std::vector<std::string>{"dense_layer x61 of model.layers.0"}));
  }
}

/// A head of queries and keys has rotated elements and others; a head of values may have another number of elements.
TEST_F(Mixtures, GivesHeadsMadeFromLatentsTheirSizes) {
  json config = with(with(with(kDeepseekV3, "v_head_dim", 96), "qk_nope_head_dim", 80), "qk_rope_head_dim", 32);
  Imported imported = import(config, 2, 16);
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  std::vector<ir::AttentionOp> attentions;
  imported.model->module->walk([&](ir::AttentionOp op) { attentions.push_back(op); });
  ASSERT_EQ(attentions.size(), 2u); // of each kind of layer
  for (ir::AttentionOp op : attentions) {
    EXPECT_EQ(ir::shapeOf(op.getQuery()), (Shape{2, 16, 128, 112}));
    EXPECT_EQ(ir::shapeOf(op.getKey()), (Shape{2, 16, 128, 112}));
    EXPECT_EQ(ir::shapeOf(op.getValue()), (Shape{2, 16, 128, 96}));
    // YaRN stretches 40 times: scores take the square of 1 + 0.1 log 40.
    double scale = 1 + 0.1 * std::log(40.0);
    EXPECT_NEAR(op.getScale().convertToDouble(), scale * scale / std::sqrt(112.0), 1e-12);
  }
}

TEST_F(Mixtures, RefusesFormsOfExpertsThatAreNotThere) {
  const json &v2 = kDeepseekV2, &v3 = kDeepseekV3;
  refuses(with(v2, "topk_method", "noaux_tc"), {"topk_method", "noaux_tc", "group_limited_greedy"});
  refuses(with(v2, "norm_topk_prob", true), {"norm_topk_prob", "true", "false", "ONNX"});
  refuses(with(v2, "moe_layer_freq", 2), {"moe_layer_freq", "2", "1"});
  refuses(with(v2, "num_experts_per_tok", nullptr), {"num_experts_per_tok"});
  refuses(with(v2, "n_group", nullptr), {"n_group", "null"});
  refuses(with(v2, "n_group", 7), {"n_group", "7", "160"});
  refuses(with(v2, "topk_group", 9), {"topk_group", "9", "8"});
  refuses(with(with(v2, "num_experts_per_tok", 25), "topk_group", 1), {"num_experts_per_tok", "25", "20"});
  refuses(with(v2, "num_key_value_heads", 16), {"num_key_value_heads", "16", "128"});
  refuses(with(v2, "kv_lora_rank", 0), {"kv_lora_rank", "0"});
  refuses(with(v2, "qk_rope_head_dim", 63), {"63", "even"});
  refuses(with(v2, "rope_scaling", {{"type", "yarn"}, {"factor", 40}, {"beta_fast", 1}, {"beta_slow", 2}}),
          {"beta_fast", "1", "2"});
  refuses(with(v2, "rope_scaling", {{"type", "yarn"}, {"mscale_all_dim", 0.5}}), {"mscale_all_dim", "0.5", "factor"});
  refuses(with(v3, "topk_method", "greedy"), {"topk_method", "greedy", "noaux_tc"});
  refuses(with(v3, "scoring_func", "softmax"), {"scoring_func", "softmax", "sigmoid"});
  refuses(with(with(v3, "n_group", 256), "topk_group", 8), {"n_group", "256", "two best"});
  refuses(with(v3, "v_head_dim", 1 << 20), {"v_head_dim", "1048576", "2048"});
}

const json kExperts = {{"model_type", "mixtral"},  {"num_hidden_layers", 1},   {"hidden_size", 8},
                       {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"intermediate_size", 6},
                       {"vocab_size", 10},         {"num_local_experts", 3}};

/// 16 tokens make 2 choices each: an equal share is 32 / 3 copies an expert.
TEST_F(Mixtures, GivesExpertsTheSlotsThatAreAskedFor) {
  auto slots = [&](std::optional<double> capacity, bool structureOnly) {
    write("config.json", kExperts.dump());
    ImportOptions options;
    options.globalBatch = 2;
    options.sequence = 16;
    options.expertCapacity = capacity;
    options.structureOnly = structureOnly;
    Imported imported = importFile(path, options);
    EXPECT_TRUE(bool(imported.model)) << imported.model.error().message;
    Shape shape;
    (*imported.model->module)->walk([&](ir::CombineOp op) { shape = ir::shapeOf(op.getOperand()); });
    return shape;
  };
  EXPECT_EQ(slots({}, false), (Shape{3, 2, 16, 8}));
  EXPECT_EQ(slots({}, true), (Shape{3, 2, 11, 8}));
  EXPECT_EQ(slots(kExactExperts, true), (Shape{3, 2, 16, 8}));
  EXPECT_EQ(slots(1.25, false), (Shape{3, 2, 14, 8}));
  EXPECT_EQ(slots(100, false), (Shape{3, 2, 16, 8}));
  write("config.json", kExperts.dump());
  ImportOptions options;
  options.expertCapacity = 0;
  Imported refused = importFile(path, options);
  ASSERT_FALSE(bool(refused.model));
  EXPECT_NE(refused.model.error().message.find("<expert-capacity>"), std::string::npos);
}

/// A checkpoint has three tensors for each expert, the model two for all of them.
TEST_F(Mixtures, StacksTheWeightsOfExperts) {
  TensorMap tensors;
  auto add = [&](const std::string &name, Shape shape, float value) {
    auto [tensor, bytes] = allocateTensor(DType::F32, std::move(shape));
    std::fill_n(reinterpret_cast<float *>(bytes), elementsOf(tensor.shape), value);
    tensors["model.layers.0.block_sparse_moe.experts." + name + ".weight"] = tensor;
  };
  for (int expert = 0; expert < 3; ++expert) {
    add(std::to_string(expert) + ".w1", {6, 8}, float(10 * expert + 1));
    add(std::to_string(expert) + ".w2", {8, 6}, float(10 * expert + 2));
    add(std::to_string(expert) + ".w3", {6, 8}, float(10 * expert + 3));
  }
  std::string file = std::filesystem::path(path).parent_path() / "model.safetensors";
  ASSERT_TRUE(bool(writeSafetensors(file, tensors)));
  Imported imported = import(kExperts);
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  EXPECT_TRUE(imported.model->warnings.empty());
  const Tensor &both = imported.model->weights.at("model.layers.0.block_sparse_moe.experts.gate_up_proj"),
               &down = imported.model->weights.at("model.layers.0.block_sparse_moe.experts.down_proj");
  ASSERT_EQ(both.shape, (Shape{3, 12, 8}));
  ASSERT_EQ(down.shape, (Shape{3, 8, 6}));
  auto at = [](const Tensor &tensor, int64_t i) { return reinterpret_cast<const float *>(tensor.data)[i]; };
  for (int64_t expert = 0; expert < 3; ++expert)
    for (int64_t i = 0; i < 48; ++i) {
      EXPECT_EQ(at(both, expert * 96 + i), float(10 * expert + 1));
      EXPECT_EQ(at(both, expert * 96 + 48 + i), float(10 * expert + 3));
      EXPECT_EQ(at(down, expert * 48 + i), float(10 * expert + 2));
    }
  tensors.erase("model.layers.0.block_sparse_moe.experts.2.w3.weight");
  ASSERT_TRUE(bool(writeSafetensors(file, tensors)));
  refuses(kExperts, {"experts.2.w3.weight", "3 experts"}, 1, 8);
}

} // namespace
} // namespace kerf
