// SPDX-License-Identifier: Apache-2.0
// Export to Megatron Bridge, which trains with Megatron-LM's core and is configured in Python: a program with a
// function that returns the configuration of a job, model included. Most fields have the names of Megatron-LM's
// arguments.
#include "Megatron.h"

#include <algorithm>

namespace kerf::exporting {

namespace {

/// A field that has another name or another section than "model", or another value than the argument of Megatron-LM.
struct Field {
  const char *argument, *path; // an empty path: the field follows from another one
  const char *value;           // Python text; nullptr: the value of the argument
};
constexpr Field kFields[] = {
    {"--norm-epsilon", "model.layernorm_epsilon", nullptr},
    {"--apply-layernorm-1p", "model.layernorm_zero_centered_gamma", nullptr},
    {"--group-query-attention", "", nullptr},
    {"--swiglu", "model.gated_linear_unit", nullptr},
    {"--no-bias-gelu-fusion", "model.bias_activation_fusion", "False"},
    {"--disable-bias-linear", "model.add_bias_linear", "False"},
    {"--untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights", "False"},
    {"--use-rope-scaling", "model.rope_scaling", nullptr},
    {"--rotary-seq-len-interpolation-factor", "model.seq_len_interpolation_factor", nullptr},
    {"--no-rope-fusion", "model.apply_rope_fusion", "False"},
    {"--num-experts", "model.num_moe_experts", nullptr},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "model.microbatch_group_size_per_vp_stage", nullptr},
    {"--no-yarn-correction-range-round-to-int", "model.yarn_correction_range_round_to_int", "False"},
    {"--num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size", nullptr},
    {"--decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage", nullptr},
    {"--decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage", nullptr},
    {"--no-overlap-p2p-communication", "", nullptr}, // the default
    {"--no-gradient-accumulation-fusion", "model.gradient_accumulation_fusion", "False"},
    {"--global-batch-size", "train.global_batch_size", nullptr},
    {"--micro-batch-size", "train.micro_batch_size", nullptr},
    {"--use-distributed-optimizer", "ddp.use_distributed_optimizer", nullptr},
    {"--use-distributed-optimizer", "optimizer.use_distributed_optimizer", nullptr},
    {"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances", nullptr},
    {"--use-megatron-fsdp", "ddp.use_megatron_fsdp", nullptr},
    {"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy", nullptr},
    {"--use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer", nullptr},
    {"--main-grads-dtype", "optimizer.main_grads_dtype", "torch.bfloat16"},
    {"--exp-avg-dtype", "optimizer.exp_avg_dtype", "torch.bfloat16"},
    {"--exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype", "torch.bfloat16"},
    {"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload", nullptr},
    {"--optimizer-offload-fraction", "optimizer.optimizer_offload_fraction", nullptr},
    {"--overlap-cpu-optimizer-d2h-h2d", "optimizer.overlap_cpu_optimizer_d2h_h2d", nullptr},
    {"--delay-wgrad-compute", "model.delay_wgrad_compute", nullptr},
    {"--delay-wgrad-compute", "ddp.delay_wgrad_compute", nullptr},
    {"--overlap-grad-reduce", "ddp.overlap_grad_reduce", nullptr},
    {"--overlap-param-gather", "ddp.overlap_param_gather", nullptr},
    {"--accumulate-allreduce-grads-in-fp32", "ddp.grad_reduce_in_fp32", "True"},
    {"--accumulate-allreduce-grads-in-fp32", "mixed_precision.grad_reduce_in_fp32", "True"},
    {"--grad-reduce-in-bf16", "ddp.grad_reduce_in_fp32", "False"},
    {"--grad-reduce-in-bf16", "mixed_precision.grad_reduce_in_fp32", "False"},
    {"--cpu-offloading-num-layers", "model.cpu_offloading", "True"},
    {"--cpu-offloading-num-layers", "model.cpu_offloading_num_layers", nullptr},
    {"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping", nullptr},
    {"--ckpt-format", "checkpoint.ckpt_format", nullptr},
    {"--optimizer", "optimizer.optimizer", nullptr},
    {"--adam-beta1", "optimizer.adam_beta1", nullptr},
    {"--adam-beta2", "optimizer.adam_beta2", nullptr},
    {"--adam-eps", "optimizer.adam_eps", nullptr},
    {"--sgd-momentum", "optimizer.sgd_momentum", nullptr},
    {"--muon-momentum", "optimizer.muon_momentum", nullptr},
    {"--muon-nesterov", "optimizer.muon_nesterov", nullptr},
    {"--muon-num-ns-steps", "optimizer.muon_num_ns_steps", nullptr},
    {"--muon-scale-mode", "optimizer.muon_scale_mode", nullptr},
    {"--muon-extra-scale-factor", "optimizer.muon_extra_scale_factor", nullptr},
    {"--muon-tp-mode", "optimizer.muon_tp_mode", nullptr},
    {"--weight-decay", "optimizer.weight_decay", nullptr},
    {"--clip-grad", "optimizer.clip_grad", nullptr},
};

/// Fields of the model whose text is Python and no string.
bool isPython(const std::string &path) {
  constexpr std::string_view kPython[] = {"model.attention_backend", "model.moe_layer_freq",
                                          "model.activation_func",   "model.window_size",
                                          "model.recompute_modules", "model.transformer_layer_spec"};
  return path.ends_with("_dtype") || std::find(std::begin(kPython), std::end(kPython), path) != std::end(kPython);
}

/// Sets a field to Python text.
void python(const std::string &path, const std::string &text, Draft &out) {
  out.file(path, text);
  out.decisions.back().text = fmt::format("{} = {}", path, text);
}

/// Writes an argument of Megatron-LM as a field.
void adapt(const std::string &name, const Json &value, Draft &out) {
  bool other = false;
  for (const Field &field : kFields)
    if (name == field.argument) {
      other = true;
      if (!*field.path)
        continue;
      if (isPython(field.path)) {
        python(field.path, field.value, out);
        continue;
      }
      Json wanted = field.value ? Json(std::string_view(field.value) == "True") : value;
      out.file(field.path, std::move(wanted));
    }
  if (other)
    return;
  std::string path = "model." + name.substr(2);
  std::replace(path.begin(), path.end(), '-', '_');
  if (name == "--attention-backend")
    return python(path, "AttnBackend." + value.get<std::string>(), out);
  if (name == "--recompute-modules")
    return python(path, fmt::format("[\"{}\"]", value.get<std::string>()), out);
  if (name == "--window-size")
    return python(path, fmt::format("({})", value.get<std::string>()), out);
  isPython(path) ? python(path, value.get<std::string>(), out) : out.file(path, value);
}

/// Writes an argument of YaRN beside other attention than the latent one. Some of its fields have a prefix that the
/// arguments have not.
void adaptYarn(const std::string &name, const Json &value, Draft &out) {
  adapt(name.find("yarn") == std::string::npos ? "--yarn-" + name.substr(2) : name, value, out);
}

/// Writes what Megatron Bridge has another default for than Megatron-LM, or another form.
void addFields(const View &view, Draft &out) {
  const std::string &key = out.key;
  if (key == "model.experts") {
    python("model.transformer_layer_spec", "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)", out);
  } else if (key == "overlap" && view.pipeline > 1 && view.chunks > 1) {
    bool overlaps = view.overlaps("stage") || view.pipeline == 2;
    out.file("model.overlap_p2p_comm", overlaps);
    out.file("model.batch_p2p_comm", !overlaps);
  } else if (key == "optimizer.kind" && view.in.optimizer.kind == "muon" && view.sharding > 0) {
    out.file("optimizer.optimizer", "dist_muon");
  } else if (key == "optimizer.weight_decay" || (key == "optimizer.settings" && view.in.optimizer.kind == "muon")) {
    for (const char *path : {"scheduler.start_weight_decay", "scheduler.end_weight_decay"})
      out.file(path, view.in.optimizer["weight-decay"]);
  }
}

/// Writes the activation, which is a function here. GELU by tanh is fused with a bias, or a function of its own.
void writeActivation(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  const std::string &name = m.activation;
  bool fused = m.gated ? name == "silu" : name == "gelu-tanh" && m.mlpBias;
  if (m.gated)
    out.file("model.gated_linear_unit", true);
  python("model.activation_func",
         name == "gelu-tanh" && !fused ? "fast_gelu"
         : name == "gelu-tanh"         ? "F.gelu"
                                       : "F." + name,
         out);
  out.file("model.bias_activation_fusion", fused);
}

/// Writes optimizer sharding. Muon has it by its name, and then Megatron Bridge does not scatter sums of gradients.
void writeMuonSharding(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  if (view.sharding == 0)
    return out.expressed("every rank has all states, the default");
  out.expressed("optimizer.optimizer = dist_muon: each rank has the states of some of the parameters");
  out.runs.plan.optimizerSharding = {1};
  out.differs(view.sharding == 1
                  ? "every rank gets the whole sums of gradients, of which the plan scatters shares: reductions send "
                    "twice as much"
                  : "Muon goes without FSDP: gradients and parameters are replicated and take more memory");
}

void writeVocabulary(const View &view, Draft &out) {
  int64_t words = view.model.vocabulary; // a size that is given is not padded to the ranks that share it
  out.file("model.vocab_size", (words + view.tensor - 1) / view.tensor * view.tensor);
}

/// Writes the positions. The table of learned positions has as many rows as the sequence has tokens.
void writePositions(const View &view, Draft &out) {
  if (view.model.position == "learned" && view.model.positions != view.model.sequence)
    return out.differs(fmt::format("the table of positions has a row for each token of a sequence: {}; give <sequence> "
                                   "{}",
                                   view.model.sequence, view.model.positions));
  out.expressed("no limit beside model.seq_length");
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  bool whole = dtype == "f32" || dtype == "f64", half = dtype == "f16";
  out.file(whole ? "mixed_precision.fp32" : half ? "mixed_precision.fp16" : "mixed_precision.bf16", true);
  for (const char *path : {"mixed_precision.params_dtype", "mixed_precision.pipeline_dtype"})
    python(path, whole ? "torch.float32" : half ? "torch.float16" : "torch.bfloat16", out);
  if (half)
    out.file("mixed_precision.grad_reduce_in_fp32", view.plan.gradientDtype == "f32");
  if (dtype == "f8") {
    out.file("mixed_precision.fp8", "hybrid");
    out.file("mixed_precision.fp8_recipe", "delayed"); // as --fp8-recipe of Megatron-LM has it
  }
  if (dtype == "f64")
    out.differs("there is no f64: f32");
}

/// Returns the fields of a section as arguments of its Python class, one a line.
std::string fieldsText(const Json &config, const char *section) {
  std::string text;
  const Json fields = config.value(section, Json::object());
  for (const auto &[name, value] : fields.items()) {
    bool plain = value.is_string() && isPython(fmt::format("{}.{}", section, name));
    text += fmt::format("            {}={},\n", name, plain ? value.get<std::string>() : pythonValue(value));
  }
  return text;
}

constexpr const char *kVariables = R"(
# Set these for your run, here or as variables of the environment.
DATA_PATH = os.environ.get("DATA_PATH", "").split()  # prefixes of the tokenized data, with spaces between
TOKENIZER_MODEL = os.environ.get("TOKENIZER_MODEL")  # name or folder of the tokenizer
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "3e-4"))
WARMUP_STEPS = int(os.environ.get("WARMUP_STEPS", "200"))
STEPS = int(os.environ.get("STEPS", "1000"))
OUTPUT = os.environ.get("OUTPUT", "output")
MOCK_DATA = os.environ.get("MOCK_DATA") == "1"  # ten steps on mock data, without a tokenizer
if MOCK_DATA:
    STEPS, WARMUP_STEPS = 10, 2
elif not DATA_PATH or not TOKENIZER_MODEL:
    raise SystemExit("set DATA_PATH and TOKENIZER_MODEL, or MOCK_DATA=1")


def job():
    return ConfigContainer(
        model={provider}(
{model}            bias_dropout_fusion=True,
            persist_layer_norm=True,
        ),
        train=TrainingConfig(
            train_iters=STEPS,
{train}        ),
        validation=ValidationConfig(eval_iters=0 if MOCK_DATA else 32),
        optimizer=OptimizerConfig(
            lr=LEARNING_RATE,
{optimizer}        ),
        scheduler=SchedulerConfig(
            lr_decay_style="cosine",
            lr_warmup_iters=WARMUP_STEPS,
{scheduler}        ),
        ddp=DistributedDataParallelConfig(
{ddp}        ),
        dataset=GPTDatasetConfig(
            random_seed=1234,
            seq_length={sequence},
            blend=None if MOCK_DATA else (DATA_PATH, None),
            split="99,1,0",
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            dataloader_type="single",
        ),
        logger=LoggerConfig(log_interval=1 if MOCK_DATA else 10),
        tokenizer=TokenizerConfig(
            tokenizer_type="NullTokenizer" if MOCK_DATA else "HuggingFaceTokenizer",
            tokenizer_model=TOKENIZER_MODEL,
            vocab_size={words} if MOCK_DATA else None,
        ),
        checkpoint=CheckpointConfig(
            save=None if MOCK_DATA else OUTPUT,
            save_interval=500,
{checkpoint}        ),
        dist=DistributedInitConfig({dist}),
        mixed_precision=MixedPrecisionConfig(
{mixed_precision}        ),
    )


if __name__ == "__main__":
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(job(), forward_step)
)";

} // namespace

const Table &megatronBridgeTable() {
  static const Table table = [] {
    Table rows = {
        {"model.sizes",
         [](const View &, Draft &out) {
           out.differs("sizes are not known of an exported graph, so the model cannot be written in Python; give the "
                       "model's config.json");
         }},
        {"model.vocabulary", writeVocabulary},
        {"model.positions", writePositions},
        {"model.activation", writeActivation},
        {"dtype", writeDtype},
    };
    for (const Row &row : newestMegatronTable()) {
      Row ours = rowOfMegatron(row, adapt), ofYarn = rowOfMegatron(row, adaptYarn);
      rows.push_back({row.key, [ours, ofYarn](const View &view, Draft &out) {
                        const ModelSizes &m = view.model;
                        if (out.key == "optimizer_sharding" && view.in.optimizer.kind == "muon")
                          return writeMuonSharding(view, out);
                        bool yarn = out.key == "model.rotary_scaling" && m.rotaryScaling == "yarn" && !m.keyValueLatent;
                        (yarn ? ofYarn : ours).write(view, out);
                        addFields(view, out);
                      }});
    }
    return rows;
  }();
  return table;
}

std::string megatronBridgeText(const std::vector<std::string> &head, const Json &config, const ModelSizes &model) {
  std::string text;
  for (const std::string &line : head)
    text += line.empty() ? "#\n" : "# " + line + "\n";
  text += "import os\n";
  if (model.experts)
    text += "from functools import partial\n";
  text += "\nimport torch\nimport torch.nn.functional as F\n";
  const char *provider = model.keyValueLatent ? "MLAModelProvider" : "GPTModelProvider";
  text += model.keyValueLatent ? "from megatron.bridge.models.mla_provider import MLAModelProvider\n"
                               : "from megatron.bridge.models import GPTModelProvider\n";
  text += "from megatron.bridge.training.config import (\n    CheckpointConfig,\n    ConfigContainer,\n"
          "    DistributedDataParallelConfig,\n    DistributedInitConfig,\n    GPTDatasetConfig,\n    LoggerConfig,\n"
          "    OptimizerConfig,\n    SchedulerConfig,\n    TokenizerConfig,\n    TrainingConfig,\n    "
          "ValidationConfig,\n)\n"
          "from megatron.bridge.training.mixed_precision import MixedPrecisionConfig\n";
  if (config.value("/model/activation_func"_json_pointer, "") == "fast_gelu")
    text += "from megatron.core.activations import fast_gelu\n";
  if (model.experts)
    text += "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n";
  text += "from megatron.core.transformer.enums import AttnBackend\n";
  using namespace fmt::literals;
  auto fields = [&](const char *section) { return fieldsText(config, section); };
  return text + fmt::format(fmt::runtime(kVariables), "provider"_a = provider, "model"_a = fields("model"),
                            "train"_a = fields("train"), "optimizer"_a = fields("optimizer"),
                            "scheduler"_a = fields("scheduler"), "ddp"_a = fields("ddp"), "sequence"_a = model.sequence,
                            "words"_a = model.vocabulary - 1, "checkpoint"_a = fields("checkpoint"),
                            "dist"_a = config.contains("dist") ? "use_tp_pp_dp_mapping=True" : "",
                            "mixed_precision"_a = fields("mixed_precision"));
}

} // namespace kerf::exporting
