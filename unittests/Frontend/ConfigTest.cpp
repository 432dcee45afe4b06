// SPDX-License-Identifier: Apache-2.0
// Tests of models from a Hugging Face config.json: parameter counts of Transformers, layers as calls of one function,
// and messages for mistakes. test/e2e/test_losses.py tests that losses agree with Transformers.
#include "Config/TransformerFamilies.h"
#include "Configurations.h"

#include <ctime>

namespace kerf {
namespace {

/// The parameter counts of published checkpoints, for the keys of their config.json that matter.
TEST_F(Configuration, HasTheParametersOfPublishedModels) {
  struct Row {
    const char *model;
    json config;
    int64_t parameters;
  };
  const Row rows[] = {
      {"gpt2", {{"model_type", "gpt2"}}, 124439808},
      {"gpt2-xl",
       {{"model_type", "gpt2"}, {"n_layer", 48}, {"n_embd", 1600}, {"n_head", 25}, {"n_inner", nullptr}},
       1557611200},
      {"Llama-7B", {{"model_type", "llama"}}, 6738415616},
      {"Llama-2-70b",
       {{"model_type", "llama"},
        {"hidden_size", 8192},
        {"num_hidden_layers", 80},
        {"num_attention_heads", 64},
        {"num_key_value_heads", 8},
        {"intermediate_size", 28672}},
       68976648192},
      {"Llama-3.2-1B",
       {{"model_type", "llama"},
        {"hidden_size", 2048},
        {"num_hidden_layers", 16},
        {"num_attention_heads", 32},
        {"num_key_value_heads", 8},
        {"intermediate_size", 8192},
        {"head_dim", 64},
        {"vocab_size", 128256},
        {"tie_word_embeddings", true}},
       1235814400},
      {"Mistral-7B", {{"model_type", "mistral"}}, 7241732096},
      {"Qwen2.5-0.5B",
       {{"model_type", "qwen2"},
        {"hidden_size", 896},
        {"num_hidden_layers", 24},
        {"num_attention_heads", 14},
        {"num_key_value_heads", 2},
        {"intermediate_size", 4864},
        {"tie_word_embeddings", true}},
       494032768},
      {"Qwen3-0.6B",
       {{"model_type", "qwen3"},
        {"hidden_size", 1024},
        {"num_hidden_layers", 28},
        {"num_attention_heads", 16},
        {"num_key_value_heads", 8},
        {"intermediate_size", 3072},
        {"head_dim", 128},
        {"tie_word_embeddings", true}},
       596049920},
      {"GPT-NeoX-20B", {{"model_type", "gpt_neox"}}, 20554567680},
      {"opt-125m", {{"model_type", "opt"}}, 125239296},
      {"bloom-560m", {{"model_type", "bloom"}, {"hidden_size", 1024}, {"n_layer", 24}, {"n_head", 16}}, 559214592},
      {"bloom", {{"model_type", "bloom"}, {"hidden_size", 14336}, {"n_layer", 70}, {"n_head", 112}}, 176247271424},
      {"falcon-7b", {{"model_type", "falcon"}}, 6921720704},
      {"gemma-2b",
       {{"model_type", "gemma"},
        {"hidden_size", 2048},
        {"num_hidden_layers", 18},
        {"num_attention_heads", 8},
        {"num_key_value_heads", 1},
        {"intermediate_size", 16384}},
       2506172416},
      {"gemma-7b", {{"model_type", "gemma"}}, 8537680896},
      {"t5-small", {{"model_type", "t5"}}, 60506624},
      {"t5-base",
       {{"model_type", "t5"}, {"d_model", 768}, {"d_ff", 3072}, {"num_layers", 12}, {"num_heads", 12}},
       222903552},
      {"flan-t5-small",
       {{"model_type", "t5"},
        {"d_ff", 1024},
        {"num_layers", 8},
        {"num_heads", 6},
        {"feed_forward_proj", "gated-gelu"},
        {"tie_word_embeddings", false}},
       76961152},
      {"bert-base-uncased", {{"model_type", "bert"}}, 109514298},
      {"vit-base-patch16-224", {{"model_type", "vit"}, {"num_labels", 1000}}, 86567656},
  };
  for (const Row &row : rows) {
    Imported imported = import(row.config, 1, row.config["model_type"] == "vit" ? 0 : 16);
    ASSERT_TRUE(bool(imported.model)) << row.model << ": " << imported.model.error().message;
    EXPECT_EQ(parameters(imported), row.parameters) << row.model;
  }
}

/// Returns the parameter count of a GPT-2 as a sum over its tensors, with an MLP of any width and an untied head, as
/// Megatron-LM's models have.
TEST_F(Configuration, HasTheParametersOfTheClosedForm) {
  for (int64_t layers : {1, 3})
    for (bool tied : {true, false}) {
      const int64_t h = 24, f = 36, v = 50, p = 20;
      Imported imported = import({{"model_type", "gpt2"},
                                  {"n_layer", layers},
                                  {"n_embd", h},
                                  {"n_head", 3},
                                  {"n_inner", f},
                                  {"vocab_size", v},
                                  {"n_positions", p},
                                  {"tie_word_embeddings", tied}});
      ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
      int64_t layer = 2 * 2 * h + (3 * h * h + 3 * h) + (h * h + h) + (h * f + f) + (f * h + h);
      EXPECT_EQ(parameters(imported), layers * layer + (tied ? 1 : 2) * v * h + p * h + 2 * h);
    }
}

TEST_F(Configuration, EmitsOneLayerHoweverManyThereAre) {
  for (const frontend::Family &family : frontend::families()) {
    if (family.model.projection == frontend::ProjectionForm::Latent) // EmitsTheDenseLayersBeforeThoseWithExperts
      continue;
    json config = {{"model_type", family.modelType}};
    config[std::string(family.keys.layers.names).substr(0, std::string(family.keys.layers.names).find('|'))] = 5;
    Imported imported =
        import(config, 2, family.model.objective == frontend::TrainingObjective::ImageClassification ? 0 : 16);
    ASSERT_TRUE(bool(imported.model)) << family.modelType << ": " << imported.model.error().message;
    // There is one stack of layers, or the decoder's after the encoder's.
    std::vector<std::string> stacks = {family.model.names.layers};
    if (!family.model.decoder.layers.empty())
      stacks.push_back(family.model.decoder.layers);
    auto functions = imported.model->module->getOps<mlir::func::FuncOp>();
    EXPECT_EQ(size_t(std::distance(functions.begin(), functions.end())), stacks.size() + 1) << family.modelType;
    std::vector<ir::CallOp> calls = imported.ops<ir::CallOp>();
    ASSERT_EQ(calls.size(), 5 * stacks.size()) << family.modelType;
    for (size_t k = 0; k < calls.size(); ++k) {
      EXPECT_EQ(calls[k].getInputs().front().getType(), calls[k].getResult(0).getType());
      EXPECT_EQ(ir::nodeName(calls[k].getLoc()), stacks[k / 5] + "." + std::to_string(k % 5));
      EXPECT_EQ(calls[k].getCallee(), calls[k / 5 * 5].getCallee());
    }
    // The operators outside of layers do not grow with the number of layers.
    int64_t others = 0;
    imported.function().walk([&](mlir::Operation *op) { others += !mlir::isa<ir::CallOp>(op); });
    EXPECT_LT(others, 100) << family.modelType;
  }
}

TEST_F(Configuration, TakesMillisecondsFor96Layers) {
  json config = {{"model_type", "gpt2"}, {"n_layer", 96},       {"n_embd", 12288},
                 {"n_head", 96},         {"vocab_size", 51200}, {"n_positions", 2048}};
  std::clock_t start = std::clock();
  Imported imported = import(config, 1536, 2048);
  double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  EXPECT_EQ(parameters(imported),
            96 * (12 * int64_t(12288) * 12288 + 13 * 12288) + (51200 + 2048 + 2) * int64_t(12288));
  EXPECT_LT(seconds, 0.2);
}

TEST_F(Configuration, HasDefaultSizesOfAStep) {
  auto shape = [&](const json &config) {
    Imported imported = import(config, 0, 0);
    return imported.model ? ir::shapeOf(imported.function().getArgument(0)) : Shape{};
  };
  EXPECT_EQ(shape({{"model_type", "gpt2"}}), (Shape{1, 1024}));
  EXPECT_EQ(shape({{"model_type", "llama"}, {"max_position_embeddings", 131072}}), (Shape{1, 2048}));
  EXPECT_EQ(shape({{"model_type", "bert"}}), (Shape{1, 512}));
  EXPECT_EQ(shape({{"model_type", "vit"}}), (Shape{1, 3, 224, 224}));
}

TEST_F(Configuration, NamesItsParametersAsTheCheckpointDoes) {
  Imported imported =
      import({{"model_type", "gpt2"}, {"n_layer", 1}, {"n_embd", 8}, {"n_head", 2}, {"vocab_size", 10}});
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  EXPECT_EQ(imported.arguments("parameter"),
            (std::vector<std::string>{"transformer.wte.weight*", "transformer.wpe.weight*",
                                      "transformer.h.0.ln_1.weight*", "transformer.h.0.ln_1.bias*",
                                      "transformer.h.0.attn.c_attn.weight*", "transformer.h.0.attn.c_attn.bias*",
                                      "transformer.h.0.attn.c_proj.weight*", "transformer.h.0.attn.c_proj.bias*",
                                      "transformer.h.0.ln_2.weight*", "transformer.h.0.ln_2.bias*",
                                      "transformer.h.0.mlp.c_fc.weight*", "transformer.h.0.mlp.c_fc.bias*",
                                      "transformer.h.0.mlp.c_proj.weight*", "transformer.h.0.mlp.c_proj.bias*",
                                      "transformer.ln_f.weight*", "transformer.ln_f.bias*"}));
  EXPECT_EQ(imported.arguments("input"), (std::vector<std::string>{"input_ids", "labels"}));
  EXPECT_EQ(imported.model->missingFiles, std::vector<std::string>{(folder.path / "model.safetensors").string()});
}

const json kSmall = {{"model_type", "gpt2"}, {"n_layer", 1},    {"n_embd", 4},
                     {"n_head", 2},          {"vocab_size", 3}, {"n_positions", 8}};

/// Returns a float tensor whose data live as long as the program.
Tensor ones(const Shape &shape) {
  auto [tensor, bytes] = allocateTensor(DType::F32, shape);
  std::fill_n(reinterpret_cast<float *>(bytes), elementsOf(shape), 1.0f);
  return tensor;
}

TEST_F(Configuration, FindsItsWeightsInEveryForm) {
  auto weights = [&]() {
    Imported imported = import(kSmall);
    EXPECT_TRUE(bool(imported.model)) << imported.model.error().message;
    return imported.model ? imported.model->weights : TensorMap();
  };
  // The names lack the prefix of the model with a head, as in GPT-2's checkpoint, and the tensors are in two files that
  // an index lists.
  ASSERT_TRUE(bool(writeSafetensors((folder.path / "a.safetensors").string(), {{"wte.weight", ones({3, 4})}})));
  ASSERT_TRUE(
      bool(writeSafetensors((folder.path / "b.safetensors").string(), {{"h.0.attn.c_attn.weight", ones({4, 12})}})));
  write("model.safetensors.index.json",
        R"({"weight_map": {"wte.weight": "a.safetensors", "h.0.attn.c_attn.weight": "b.safetensors"}})");
  TensorMap found = weights();
  EXPECT_EQ(found.size(), 2u);
  EXPECT_TRUE(found.count("transformer.wte.weight") && found.count("transformer.h.0.attn.c_attn.weight"));
  // A single file has precedence over the index. A copy of the tied head gives no warning, another tensor does.
  ASSERT_TRUE(bool(writeSafetensors(
      (folder.path / "model.safetensors").string(),
      {{"transformer.wte.weight", ones({3, 4})}, {"lm_head.weight", ones({3, 4})}, {"h.0.attn.bias", ones({1})}})));
  Imported imported = import(kSmall);
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  EXPECT_EQ(imported.model->weights.size(), 1u);
  ASSERT_EQ(imported.model->warnings.size(), 1u);
  EXPECT_NE(imported.model->warnings[0].find("h.0.attn.bias"), std::string::npos);
  EXPECT_EQ(imported.model->warnings[0].find("lm_head"), std::string::npos);
}

TEST_F(Configuration, RefusesWeightsOfAnotherModel) {
  ASSERT_TRUE(
      bool(writeSafetensors((folder.path / "model.safetensors").string(), {{"transformer.wte.weight", ones({4, 3})}})));
  refuses(kSmall, {"transformer.wte.weight", "[4, 3]", "[3, 4]"}, 1, 8);
  ASSERT_TRUE(bool(writeSafetensors((folder.path / "model.safetensors").string(), {{"other", ones({4, 3})}})));
  refuses(kSmall, {"model.safetensors", "other"}, 1, 8);
  std::filesystem::remove(folder.path / "model.safetensors");
  write("model.safetensors.index.json", R"({"weight_map": [1]})");
  refuses(kSmall, {"model.safetensors.index.json", "weight_map"}, 1, 8);
  write("model.safetensors.index.json", R"({"weight_map": {"wte.weight": "../a.safetensors"}})");
  refuses(kSmall, {"model.safetensors.index.json", "../a.safetensors"}, 1, 8);
  write("model.safetensors.index.json", R"({"weight_map": {"wte.weight": "gone.safetensors"}})");
  refuses(kSmall, {"gone.safetensors"}, 1, 8);
}

TEST_F(Configuration, RefusesWhatIsWrongByName) {
  refuses(json::object(), {"model_type", "gpt2", "llama"});
  refuses({{"model_type", "nothing"}}, {"nothing", "gpt2", "ONNX"});
  refuses({{"model_type", 7}}, {"model_type", "7"});
  refuses({{"model_type", "mixtral"}, {"output_router_logits", true}}, {"output_router_logits", "false"});
  refuses({{"model_type", "mixtral"}, {"num_experts_per_tok", 9}}, {"num_experts_per_tok", "9", "8"});
  refuses({{"model_type", "qwen3_moe"}, {"mlp_only_layers", {0}}}, {"mlp_only_layers", "[]"});
  refuses({{"model_type", "gemma2"}}, {"gemma2", "sliding-window"});
  refuses({{"model_type", "olmoe"}, {"clip_qkv", 8.0}}, {"clip_qkv", "8", "null"});
  refuses(json::array({1}), {"config.json", "array"});
  for (const char *key : {"n_layer", "n_embd", "n_head", "vocab_size", "n_positions", "n_inner"}) {
    for (const json &value :
         std::vector<json>{0, -3, 1.5, "12", true, json::array({2}), uint64_t(1) << 63, int64_t(1) << 62})
      refuses(with(kSmall, key, value), {key, value.dump()}, 1, 8);
    if (std::string(key) != "n_inner")
      refuses(with(kSmall, key, nullptr), {key, "null"}, 1, 8);
  }
  refuses(with(kSmall, "n_head", 3), {"3 heads", "4"});
  refuses(with(kSmall, "layer_norm_epsilon", -1e-5), {"layer_norm_epsilon", "-1e-05"});
  refuses(with(kSmall, "activation_function", "mish"), {"mish", "gelu_new"});
  refuses(with(kSmall, "scale_attn_by_inverse_layer_idx", true), {"scale_attn_by_inverse_layer_idx", "false"});
  refuses(with(kSmall, "tie_word_embeddings", "yes"), {"tie_word_embeddings", "yes"});
  refuses(with(kSmall, "architectures", 5), {"architectures", "5"});
  refuses(kSmall, {"<sequence>", "9", "8"}, 1, 9);
  refuses(kSmall, {"<sequence>", "1"}, 1, 1);
  refuses(kSmall, {"<global-batch>", "-2"}, -2, 8);
  refuses(kSmall, {"<sequence>", "-2"}, 1, -2);
  json wide = with(with(kSmall, "vocab_size", 1 << 30), "n_embd", 1 << 10);
  refuses(wide, {"logits", "16777216"}, 1 << 24, 8);
  refuses(with(with(wide, "n_embd", 1 << 20), "n_head", 1 << 10), {"embedding", "1073741824"}, 1, 8);
}

TEST_F(Configuration, RefusesFormsThatAreNotThere) {
  const json llama = {
      {"model_type", "llama"}, {"num_hidden_layers", 1}, {"hidden_size", 16}, {"num_attention_heads", 4}};
  refuses(with(llama, "num_key_value_heads", 3), {"3", "4"});
  refuses(with(llama, "head_dim", 5), {"5", "even"});
  refuses(with(llama, "rope_theta", 0), {"rope_theta", "0"});
  refuses(with(llama, "rope_scaling", {{"rope_type", "longrope"}, {"factor", 4}}), {"longrope", "llama3"});
  refuses(with(llama, "rope_scaling", {{"type", "linear"}, {"factor", "x"}}), {"rope_scaling.factor", "x"});
  refuses(with(llama, "rope_parameters", 3), {"rope_parameters", "3"});
  refuses(with(with(llama, "rope_scaling", {{"type", "dynamic"}, {"factor", 2}}), "max_position_embeddings", 64),
          {"dynamic", "64", "65"}, 1, 65);
  json qwen = with(with(with(llama, "model_type", "qwen2"), "num_key_value_heads", 2), "use_sliding_window", true);
  refuses(with(with(qwen, "sliding_window", 4), "layer_types", {"full_attention", "sliding_attention"}),
          {"1 of 2", "4", "8"}, 1, 8);
  refuses({{"model_type", "opt"}, {"word_embed_proj_dim", 512}}, {"word_embed_proj_dim", "512", "768"});
  refuses({{"model_type", "falcon"}, {"alibi", true}}, {"alibi", "falcon"});
  refuses({{"model_type", "bert"}, {"position_embedding_type", "relative_key"}}, {"position_embedding_type"});
  const json vit = {{"model_type", "vit"}, {"num_hidden_layers", 1}};
  refuses(with(vit, "patch_size", 15), {"224", "15"});
  refuses(with(vit, "id2label", {{"0", "score"}}), {"1"});
  refuses(vit, {"197", "196"}, 1, 196);
}

TEST_F(Configuration, RefusesFilesThatAreNoConfiguration) {
  auto message = [&](const std::string &text) {
    write("config.json", text);
    Imported imported = importFile(path, {});
    return imported.model ? std::string("accepted") : imported.model.error().message;
  };
  for (const char *text : {"", "{", "null", "[]", "\"gpt2\"", "{\"model_type\": \"gpt2\"", "\xff\xfe"})
    EXPECT_NE(message(text).find("config.json"), std::string::npos) << text;
  EXPECT_NE(message("{\"model_type\": \"gpt2\", \"n_layer\": 1e400}").find("config.json"), std::string::npos);
  auto nested = [](int levels) {
    return "{\"model_type\": \"gpt2\", \"x\": " + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_NE(message(nested(50) + ",").find("not JSON"), std::string::npos);
  for (const std::string &endless : {nested(100000), std::string(200000, '[')})
    EXPECT_NE(message(endless).find("levels of nesting"), std::string::npos);
}

/// The first distances of T5's buckets in Transformers' _relative_position_bucket, for 32 buckets up to distance 128.
TEST_F(Configuration, CutsDistancesIntoTheBucketsOfT5) {
  Imported imported = import({{"model_type", "t5"}, {"num_layers", 1}}, 1, 64);
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  std::vector<std::vector<int64_t>> starts;
  for (ir::ConstantOp constant : imported.ops<ir::ConstantOp>())
    if (auto values = mlir::dyn_cast<mlir::DenseIntElementsAttr>(constant.getValue());
        values && values.getNumElements() > 1)
      starts.emplace_back(values.getValues<int64_t>().begin(), values.getValues<int64_t>().end());
  EXPECT_EQ(starts, (std::vector<std::vector<int64_t>>{{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91},
                                                       {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                                        19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}}));
}

TEST_F(Configuration, FreezesByName) {
  write("config.json", kSmall.dump());
  ImportOptions options;
  options.frozen = {"transformer.h.*"};
  Imported imported = importFile(path, options);
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  EXPECT_EQ(parameters(imported), 3 * 4 + 8 * 4 + 2 * 4);
  options.frozen = {"nothing*"};
  Imported unmatched = importFile(path, options);
  ASSERT_FALSE(bool(unmatched.model));
  EXPECT_NE(unmatched.model.error().message.find("nothing*"), std::string::npos);
  options.frozen.clear();
  options.loss = "logits";
  EXPECT_FALSE(bool(importFile(path, options).model));
}

} // namespace
} // namespace kerf
