// SPDX-License-Identifier: Apache-2.0
// The table of supported families of a config.json. A row has the structure and the module names of the family, the
// keys of its sizes with the defaults of Hugging Face's configuration class (Transformers 5), and a function that reads
// its other keys. Families with experts are in MixtureFamilies.cpp.
#include "Config/TransformerFamilies.h"

#include <fmt/format.h>

namespace kerf::frontend {

ModuleNames decoderNames() {
  ModuleNames n;
  n.tokens = "model.embed_tokens";
  n.layers = "model.layers";
  n.attention = "self_attn";
  n.query = "self_attn.q_proj";
  n.key = "self_attn.k_proj";
  n.value = "self_attn.v_proj";
  n.output = "self_attn.o_proj";
  n.attentionNorm = "input_layernorm";
  n.mlpNorm = "post_attention_layernorm";
  n.gate = "mlp.gate_proj";
  n.up = "mlp.up_proj";
  n.down = "mlp.down_proj";
  n.finalNorm = "model.norm";
  n.head = "lm_head";
  return n;
}

Family llamaLike(const char *modelType, const char *architecture) {
  Family f;
  f.modelType = modelType;
  f.architecture = architecture;
  f.keys.layers = {"num_hidden_layers", 32};
  f.keys.hidden = {"hidden_size", 4096};
  f.keys.heads = {"num_attention_heads", 32};
  f.keys.groups = {"num_key_value_heads", std::nullopt};
  f.keys.headSize = {"head_dim", std::nullopt};
  f.keys.inner = {"intermediate_size", 11008};
  f.keys.vocabulary = {"vocab_size", 32000};
  f.keys.maxPositions = {"max_position_embeddings", 2048};
  f.keys.epsilon = {"rms_norm_eps", 1e-6};
  f.keys.activation = {"hidden_act", "silu"};
  f.model.names = decoderNames();
  f.model.optionalPrefix = "model.";
  f.model.norm = NormKind::Rms;
  f.model.position = PositionKind::Rotary;
  f.model.gated = true;
  return f;
}

namespace {

Family gpt2() {
  Family f;
  f.modelType = "gpt2";
  f.architecture = "GPT2LMHeadModel";
  f.keys.layers = {"n_layer|num_hidden_layers", 12};
  f.keys.hidden = {"n_embd|hidden_size", 768};
  f.keys.heads = {"n_head|num_attention_heads", 12};
  f.keys.inner = {"n_inner", std::nullopt};
  f.keys.vocabulary = {"vocab_size", 50257};
  f.keys.maxPositions = {"n_positions|max_position_embeddings", 1024};
  f.keys.epsilon = {"layer_norm_epsilon", 1e-5};
  f.keys.activation = {"activation_function", "gelu_new"};
  f.keys.tiedHead = true;
  f.fixed = {{"scale_attn_weights", true}, {"scale_attn_by_inverse_layer_idx", false}, {"add_cross_attention", false}};
  TransformerModel &m = f.model;
  m.optionalPrefix = "transformer.";
  m.projection = ProjectionForm::Stacked;
  m.layout = WeightLayout::InOut;
  m.queryKeyValueBias = m.outputBias = m.mlpBias = true;
  ModuleNames &n = m.names;
  n.tokens = "transformer.wte";
  n.positions = "transformer.wpe";
  n.layers = "transformer.h";
  n.attentionNorm = "ln_1";
  n.attention = "attn";
  n.fused = "attn.c_attn";
  n.output = "attn.c_proj";
  n.mlpNorm = "ln_2";
  n.up = "mlp.c_fc";
  n.down = "mlp.c_proj";
  n.finalNorm = "transformer.ln_f";
  n.head = "lm_head";
  return f;
}

Family llama() {
  Family f = llamaLike("llama", "LlamaForCausalLM");
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", false);
    m.mlpBias = config.flag("mlp_bias", false);
    readRotary(config, m, step, {});
  };
  return f;
}

Family mistral() {
  Family f = llamaLike("mistral", "MistralForCausalLM");
  f.keys.groups.fallback = 8;
  f.keys.inner.fallback = 14336;
  f.keys.maxPositions.fallback = 131072;
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    readRotary(config, m, step, {});
    readWindow(config, m, step, {4096, 0});
  };
  return f;
}

Family qwen2() {
  Family f = llamaLike("qwen2", "Qwen2ForCausalLM");
  f.keys.groups.fallback = 32;
  f.keys.inner.fallback = 22016;
  f.keys.vocabulary.fallback = 151936;
  f.keys.maxPositions.fallback = 32768;
  f.model.queryKeyValueBias = true;
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    readRotary(config, m, step, {});
    if (config.flag("use_sliding_window", false))
      readWindow(config, m, step, {4096, 28});
  };
  return f;
}

Family qwen3() {
  Family f = qwen2();
  f.modelType = "qwen3";
  f.architecture = "Qwen3ForCausalLM";
  f.keys.headSize.fallback = 128;
  f.model.queryKeyNorm = HeadNorm::EachHead;
  f.model.names.queryNorm = "self_attn.q_norm";
  f.model.names.keyNorm = "self_attn.k_norm";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", false);
    readRotary(config, m, step, {});
    if (config.flag("use_sliding_window", false))
      readWindow(config, m, step, {4096, 28});
  };
  return f;
}

Family gemma() {
  Family f = llamaLike("gemma", "GemmaForCausalLM");
  f.keys.layers.fallback = 28;
  f.keys.hidden.fallback = 3072;
  f.keys.heads.fallback = 16;
  f.keys.groups.fallback = 16;
  f.keys.headSize.fallback = 256;
  f.keys.inner.fallback = 24576;
  f.keys.vocabulary.fallback = 256000;
  f.keys.maxPositions.fallback = 8192;
  f.keys.activation = {"hidden_act", "gelu_pytorch_tanh"};
  f.keys.tiedHead = true;
  f.fixed = {{"use_bidirectional_attention", false}};
  f.model.norm = NormKind::RmsPlusOne;
  f.model.scaledEmbedding = true;
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", false);
    readRotary(config, m, step, {});
    if (m.activation ==
        Activation::Gelu) // the first releases write this name, which Transformers treats as the tanh form
      m.activation = Activation::GeluTanh;
  };
  return f;
}

Family gptNeox() {
  Family f;
  f.modelType = "gpt_neox";
  f.architecture = "GPTNeoXForCausalLM";
  f.keys.layers = {"num_hidden_layers", 44};
  f.keys.hidden = {"hidden_size", 6144};
  f.keys.heads = {"num_attention_heads", 64};
  f.keys.inner = {"intermediate_size", 24576};
  f.keys.vocabulary = {"vocab_size", 50432};
  f.keys.maxPositions = {"max_position_embeddings", 2048};
  f.keys.epsilon = {"layer_norm_eps", 1e-5};
  f.keys.activation = {"hidden_act", "gelu"};
  TransformerModel &m = f.model;
  m.optionalPrefix = "gpt_neox.";
  m.position = PositionKind::Rotary;
  m.projection = ProjectionForm::Grouped;
  m.mlpBias = true;
  ModuleNames &n = m.names;
  n.tokens = "gpt_neox.embed_in";
  n.layers = "gpt_neox.layers";
  n.attentionNorm = "input_layernorm";
  n.attention = "attention";
  n.fused = "attention.query_key_value";
  n.output = "attention.dense";
  n.mlpNorm = "post_attention_layernorm";
  n.up = "mlp.dense_h_to_4h";
  n.down = "mlp.dense_4h_to_h";
  n.finalNorm = "gpt_neox.final_layer_norm";
  n.head = "embed_out";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", true);
    m.residual = config.flag("use_parallel_residual", true) ? ResidualForm::Parallel : ResidualForm::PreNorm;
    readRotary(config, m, step, {"rotary_emb_base|rope_theta", "rotary_pct|partial_rotary_factor", 0.25});
  };
  return f;
}

Family opt() {
  Family f;
  f.modelType = "opt";
  f.architecture = "OPTForCausalLM";
  f.keys.layers = {"num_hidden_layers", 12};
  f.keys.hidden = {"hidden_size", 768};
  f.keys.heads = {"num_attention_heads", 12};
  f.keys.inner = {"ffn_dim", 3072};
  f.keys.vocabulary = {"vocab_size", 50272};
  f.keys.maxPositions = {"max_position_embeddings", 2048};
  f.keys.epsilon = {"", 1e-5}; // default of nn.LayerNorm
  f.keys.activation = {"activation_function", "relu"};
  f.keys.tiedHead = true;
  f.fixed = {{"enable_bias", true}, {"layer_norm_elementwise_affine", true}};
  TransformerModel &m = f.model;
  m.optionalPrefix = "model.";
  m.positionOffset = 2;
  m.queryKeyValueBias = m.outputBias = m.mlpBias = true;
  ModuleNames &n = m.names;
  n = decoderNames();
  n.tokens = "model.decoder.embed_tokens";
  n.positions = "model.decoder.embed_positions";
  n.layers = "model.decoder.layers";
  n.output = "self_attn.out_proj";
  n.attentionNorm = "self_attn_layer_norm";
  n.mlpNorm = "final_layer_norm";
  n.up = "fc1";
  n.down = "fc2";
  n.finalNorm = "model.decoder.final_layer_norm";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &) {
    bool before = config.flag("do_layer_norm_before", true);
    m.residual = before ? ResidualForm::PreNorm : ResidualForm::PostNorm;
    m.finalNorm = before && !config.flag("_remove_final_layer_norm", false);
    auto width = config.integer("word_embed_proj_dim", m.hidden, 1, kMaxSize);
    if (width && *width != m.hidden)
      config.fail(fmt::format(
          "word_embed_proj_dim is {}, but hidden_size is {}; embeddings of another width (OPT-350m) are not supported",
          *width, m.hidden));
  };
  return f;
}

Family bloom() {
  Family f;
  f.modelType = "bloom";
  f.architecture = "BloomForCausalLM";
  f.keys.layers = {"n_layer|num_hidden_layers", 2};
  f.keys.hidden = {"hidden_size|n_embed", 64};
  f.keys.heads = {"n_head|num_attention_heads", 8};
  f.keys.vocabulary = {"vocab_size", 250880};
  f.keys.maxPositions = {"seq_length", 2048};
  f.keys.epsilon = {"layer_norm_epsilon", 1e-5};
  f.keys.activation = {"", "gelu_new"};
  f.keys.tiedHead = true;
  f.fixed = {{"apply_residual_connection_post_layernorm", false}};
  TransformerModel &m = f.model;
  m.optionalPrefix = "transformer.";
  m.position = PositionKind::Alibi;
  m.projection = ProjectionForm::Grouped;
  m.embeddingNorm = true;
  m.queryKeyValueBias = m.outputBias = m.mlpBias = true;
  ModuleNames &n = m.names;
  n.tokens = "transformer.word_embeddings";
  n.embeddingNorm = "transformer.word_embeddings_layernorm";
  n.layers = "transformer.h";
  n.attentionNorm = "input_layernorm";
  n.attention = "self_attention";
  n.fused = "self_attention.query_key_value";
  n.output = "self_attention.dense";
  n.mlpNorm = "post_attention_layernorm";
  n.up = "mlp.dense_h_to_4h";
  n.down = "mlp.dense_4h_to_h";
  n.finalNorm = "transformer.ln_f";
  n.head = "lm_head";
  return f;
}

void refineFalcon(ConfigReader &config, TransformerModel &m, const StepSize &step) {
  m.queryKeyValueBias = m.outputBias = m.mlpBias = config.flag("bias", false);
  bool grouped = config.flag("new_decoder_architecture", false), parallel = config.flag("parallel_attn", true);
  if (!grouped)
    m.groups = config.flag("multi_query", true) ? 1 : m.heads;
  if (grouped && !parallel)
    config.fail("new_decoder_architecture is true, but parallel_attn is false; no Falcon model has this combination");
  if (parallel && grouped && config.integer("num_ln_in_parallel_attn", std::nullopt, 1, 2).value_or(2) == 2) {
    m.residual = ResidualForm::Parallel;
    m.names.attentionNorm = "ln_attn";
    m.names.mlpNorm = "ln_mlp";
  } else if (parallel) {
    m.residual = ResidualForm::ParallelSharedNorm;
  }
  readRotary(config, m, step, {});
}

Family falcon() {
  Family f = bloom();
  f.modelType = "falcon";
  f.architecture = "FalconForCausalLM";
  f.keys.layers = {"num_hidden_layers|n_layer", 32};
  f.keys.hidden = {"hidden_size|n_embed", 4544};
  f.keys.heads = {"num_attention_heads|n_head", 71};
  f.keys.groups = {"num_kv_heads|n_head_kv", std::nullopt};
  f.keys.inner = {"ffn_hidden_size", std::nullopt};
  f.keys.vocabulary = {"vocab_size", 65024};
  f.keys.maxPositions = {"max_position_embeddings", 2048};
  f.keys.activation = {"activation", "gelu"};
  f.fixed = {{"alibi", false}};
  f.model.position = PositionKind::Rotary;
  f.model.embeddingNorm = false;
  f.refine = refineFalcon;
  return f;
}

Family bert() {
  Family f;
  f.modelType = "bert";
  f.architecture = "BertForMaskedLM";
  f.keys.layers = {"num_hidden_layers", 12};
  f.keys.hidden = {"hidden_size", 768};
  f.keys.heads = {"num_attention_heads", 12};
  f.keys.inner = {"intermediate_size", 3072};
  f.keys.vocabulary = {"vocab_size", 30522};
  f.keys.maxPositions = {"max_position_embeddings", 512};
  f.keys.epsilon = {"layer_norm_eps", 1e-12};
  f.keys.activation = {"hidden_act", "gelu"};
  f.keys.tiedHead = true;
  f.fixed = {{"is_decoder", false}, {"add_cross_attention", false}, {"position_embedding_type", "absolute"}};
  TransformerModel &m = f.model;
  m.objective = TrainingObjective::MaskedLm;
  m.optionalPrefix = "bert.";
  m.residual = ResidualForm::PostNorm;
  m.embeddingNorm = true;
  m.finalNorm = false;
  m.queryKeyValueBias = m.outputBias = m.mlpBias = m.headBias = true;
  ModuleNames &n = m.names;
  n.tokens = "bert.embeddings.word_embeddings";
  n.positions = "bert.embeddings.position_embeddings";
  n.tokenTypes = "bert.embeddings.token_type_embeddings";
  n.embeddingNorm = "bert.embeddings.LayerNorm";
  n.layers = "bert.encoder.layer";
  n.attention = "attention.self";
  n.query = "attention.self.query";
  n.key = "attention.self.key";
  n.value = "attention.self.value";
  n.output = "attention.output.dense";
  n.attentionNorm = "attention.output.LayerNorm";
  n.up = "intermediate.dense";
  n.down = "output.dense";
  n.mlpNorm = "output.LayerNorm";
  n.headTransform = "cls.predictions.transform.dense";
  n.headNorm = "cls.predictions.transform.LayerNorm";
  n.headBias = "cls.predictions.bias";
  n.head = "cls.predictions.decoder";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &) {
    m.tokenTypes = config.integer("type_vocab_size", 2, 1, kMaxSize).value_or(2);
  };
  return f;
}

Family vit() {
  Family f;
  f.modelType = "vit";
  f.architecture = "ViTForImageClassification";
  f.keys.layers = {"num_hidden_layers", 12};
  f.keys.hidden = {"hidden_size", 768};
  f.keys.heads = {"num_attention_heads", 12};
  f.keys.inner = {"intermediate_size", 3072};
  f.keys.epsilon = {"layer_norm_eps", 1e-12};
  f.keys.activation = {"hidden_act", "gelu"};
  f.fixed = {{"problem_type", "single_label_classification"}};
  TransformerModel &m = f.model;
  m.objective = TrainingObjective::ImageClassification;
  m.optionalPrefix = "vit.";
  m.outputBias = m.mlpBias = m.headBias = true;
  ModuleNames &n = m.names;
  n.patches = "vit.embeddings.patch_embeddings.projection";
  n.classToken = "vit.embeddings.cls_token";
  n.positions = "vit.embeddings.position_embeddings";
  n.layers = "vit.encoder.layer";
  n.attention = "attention.attention";
  n.query = "attention.attention.query";
  n.key = "attention.attention.key";
  n.value = "attention.attention.value";
  n.output = "attention.output.dense";
  n.attentionNorm = "layernorm_before";
  n.mlpNorm = "layernorm_after";
  n.up = "intermediate.dense";
  n.down = "output.dense";
  n.finalNorm = "vit.layernorm";
  n.head = "classifier";
  n.headBias = "classifier.bias";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &) {
    m.queryKeyValueBias = config.flag("qkv_bias", true);
    m.imageSize = config.integer("image_size", 224, 1, 1 << 16).value_or(224);
    m.patchSize = config.integer("patch_size", 16, 1, 1 << 16).value_or(16);
    m.channels = config.integer("num_channels", 3, 1, 1 << 16).value_or(3);
    m.classes = config.count("id2label").value_or(config.integer("num_labels", 2, 1, kMaxSize).value_or(2));
    if (m.imageSize % m.patchSize != 0)
      config.fail(fmt::format("image_size {} is not a multiple of patch_size {}", m.imageSize, m.patchSize));
    if (m.classes < 2)
      config.fail(
          fmt::format("id2label names {} classes, but at least 2 are needed, because a regression has no cross entropy",
                      m.classes));
  };
  return f;
}

void refineT5(ConfigReader &config, TransformerModel &m, const StepSize &) {
  m.decoderLayers = config.integer("num_decoder_layers", m.layers, 1, kMaxLayers).value_or(m.layers);
  m.buckets = config.integer("relative_attention_num_buckets", 32, 4, 1 << 10).value_or(32);
  m.farthest = config.integer("relative_attention_max_distance", 128, 2, 1 << 20).value_or(128);
  if (m.buckets % 4 != 0 || m.farthest <= m.buckets / 2)
    config.fail(fmt::format("relative_attention_num_buckets {} must be a multiple of 4 whose half is less than "
                            "relative_attention_max_distance {}",
                            m.buckets, m.farthest));
  m.startToken = config.integer("decoder_start_token_id|pad_token_id", 0, 0, m.vocabulary - 1).value_or(0);
  m.paddingToken = config.integer("pad_token_id", 0, 0, m.vocabulary - 1).value_or(0);
  // T5 1.0 ties its head to the embedding and scales the head's input, T5 1.1 does neither. Transformers 5 saves only
  // one of the two keys.
  m.scaledHead = config.flag("scale_decoder_outputs", m.tiedHead);
  std::string form = config.text("feed_forward_proj", "relu");
  m.gated = form.rfind("gated-", 0) == 0;
  std::string name = m.gated ? form.substr(form.find('-') + 1) : form;
  setActivation(config, m, "feed_forward_proj", form == "gated-gelu" ? "gelu_new" : name);
  for (ModuleNames *n : {&m.names, &m.decoder}) {
    std::string block = n == &m.names ? "layer.1.DenseReluDense" : "layer.2.DenseReluDense";
    n->gate = block + ".wi_0";
    n->up = block + (m.gated ? ".wi_1" : ".wi");
    n->down = block + ".wo";
  }
}

Family t5() {
  Family f;
  f.modelType = "t5";
  f.architecture = "T5ForConditionalGeneration";
  f.keys.layers = {"num_layers|num_hidden_layers", 6};
  f.keys.hidden = {"d_model|hidden_size", 512};
  f.keys.heads = {"num_heads|num_attention_heads", 8};
  f.keys.headSize = {"d_kv|head_dim", 64};
  f.keys.inner = {"d_ff", 2048};
  f.keys.vocabulary = {"vocab_size", 32128};
  f.keys.maxPositions = {"n_positions", 512}; // only limits the default sequence length
  f.keys.epsilon = {"layer_norm_epsilon", 1e-6};
  f.keys.activation = {"", "relu"};
  f.keys.tiedHead = true;
  f.fixed = {{"is_encoder_decoder", true}};
  TransformerModel &m = f.model;
  m.objective = TrainingObjective::SequenceToSequence;
  m.norm = NormKind::Rms;
  m.position = PositionKind::RelativeBias;
  m.scaledAttention = false;
  ModuleNames &n = m.names;
  n.tokens = "shared";
  n.layers = "encoder.block";
  n.relativeBias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias";
  n.attentionNorm = "layer.0.layer_norm";
  n.attention = "layer.0.SelfAttention";
  n.query = "layer.0.SelfAttention.q";
  n.key = "layer.0.SelfAttention.k";
  n.value = "layer.0.SelfAttention.v";
  n.output = "layer.0.SelfAttention.o";
  n.mlpNorm = "layer.1.layer_norm";
  n.finalNorm = "encoder.final_layer_norm";
  n.head = "lm_head";
  ModuleNames &d = m.decoder;
  d = n;
  d.layers = "decoder.block";
  d.relativeBias = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias";
  d.crossNorm = "layer.1.layer_norm";
  d.crossAttention = "layer.1.EncDecAttention";
  d.crossQuery = "layer.1.EncDecAttention.q";
  d.crossKey = "layer.1.EncDecAttention.k";
  d.crossValue = "layer.1.EncDecAttention.v";
  d.crossOutput = "layer.1.EncDecAttention.o";
  d.mlpNorm = "layer.2.layer_norm";
  d.finalNorm = "decoder.final_layer_norm";
  f.refine = refineT5;
  return f;
}

} // namespace

const std::vector<Family> &families() {
  static const std::vector<Family> table = [] {
    std::vector<Family> all = {gpt2(), llama(),  mistral(), qwen2(), qwen3(), gptNeox(), opt(),
                               bert(), falcon(), bloom(),   gemma(), vit(),   t5()};
    std::vector<Family> mixtures = mixtureFamilies();
    all.insert(all.end(), mixtures.begin(), mixtures.end());
    return all;
  }();
  return table;
}

const std::vector<RefusedFamily> &refusedFamilies() {
  static const std::vector<RefusedFamily> table = {
      {"gemma2", "every second layer has sliding-window attention, and scores are capped by tanh"},
      {"gemma3_text", "five of six layers have sliding-window attention"},
      {"gpt_neo", "every second layer has sliding-window attention"},
      {"roberta", "positions are counted from the padding of each row"},
  };
  return table;
}

} // namespace kerf::frontend
