# SPDX-License-Identifier: Apache-2.0
"""Argument rules of trainers whose parsers are not on PyPI: name, type, number of values and choices of each argument that
kerf export writes, and the checks of the trainer's own validation that need nothing but the arguments.

Sources: Megatron-LM, megatron/training/arguments.py and the fields of TransformerConfig, release core_v0.19.2 (2026), whose
parser scripts/check-exports.sh compares with this table;
Megatron-DeepSpeed, megatron/arguments.py, commit 207b2d5aad1e. An argument that a trainer drops, renames or restricts is
changed here, and the tests and scripts/check-exports.sh then show which exports it breaks.
"""
from __future__ import annotations

import argparse


def moe_layer_freq(text: str):
    """Megatron-LM evaluates an integer or a list expression such as ([0]*3+[1]*58)."""
    if text.isdigit():
        return int(text)
    value = eval(text, {"__builtins__": {}})  # the trainer does the same with text that it trusts
    if not isinstance(value, list) or not set(value) <= {0, 1}:
        raise argparse.ArgumentTypeError(f"{text} is no list of 0 and 1")
    return value


def window(text: str):
    """A pair of numbers: tokens before and after a token."""
    before, after = map(int, text.strip("()").split(","))
    return before, after


FLAG = object()  # an argument without a value

MEGATRON_LM = {
    # the model
    "--num-layers": int, "--hidden-size": int, "--ffn-hidden-size": int, "--num-attention-heads": int, "--kv-channels": int,
    "--group-query-attention": FLAG, "--num-query-groups": int, "--max-position-embeddings": int, "--seq-length": int,
    "--position-embedding-type": ("learned_absolute", "rope", "mrope", "yarn", "relative", "none"), "--rotary-base": int, "--rotary-percent": float,
    "--rotary-seq-len-interpolation-factor": int, "--use-rope-scaling": FLAG, "--rope-scaling-factor": float, "--rope-type": ("rope", "yarn"), "--no-rope-fusion": FLAG,
    "--rotary-scaling-factor": float, "--mscale": float, "--mscale-all-dim": float, "--yarn-original-max-position-embeddings": int,
    "--yarn-beta-fast": float, "--yarn-beta-slow": float, "--yarn-correction-range-round-to-int": FLAG, "--no-yarn-correction-range-round-to-int": FLAG,
    "--use-mup": FLAG, "--mup-embedding-mult": float, "--mup-attn-scale-power": float, "--make-vocab-size-divisible-by": int, "--vocab-size": int, "--padded-vocab-size": int,
    "--normalization": ("LayerNorm", "RMSNorm"), "--norm-epsilon": float, "--apply-layernorm-1p": FLAG, "--swiglu": FLAG, "--no-bias-gelu-fusion": FLAG,
    "--disable-bias-linear": FLAG, "--add-qkv-bias": FLAG, "--untie-embeddings-and-output-weights": FLAG, "--qk-layernorm": FLAG, "--window-size": window,
    "--attention-dropout": float, "--hidden-dropout": float, "--multi-latent-attention": FLAG, "--q-lora-rank": int, "--kv-lora-rank": int,
    "--qk-head-dim": int, "--qk-pos-emb-head-dim": int, "--v-head-dim": int,
    # experts
    "--num-experts": int, "--moe-ffn-hidden-size": int, "--moe-router-topk": int, "--moe-router-pre-softmax": FLAG,
    "--moe-router-score-function": ("softmax", "sigmoid"), "--moe-router-enable-expert-bias": FLAG, "--moe-router-num-groups": int,
    "--moe-router-group-topk": int, "--moe-router-topk-scaling-factor": float, "--moe-shared-expert-intermediate-size": int,
    "--moe-shared-expert-gate": FLAG, "--moe-layer-freq": moe_layer_freq, "--moe-grouped-gemm": FLAG,
    "--moe-token-dispatcher-type": ("allgather", "alltoall", "flex"), "--moe-expert-capacity-factor": float,
    "--moe-pad-expert-input-to-capacity": FLAG, "--moe-router-load-balancing-type": ("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"),
    # how a step runs
    "--tensor-model-parallel-size": int, "--pipeline-model-parallel-size": int, "--context-parallel-size": int, "--expert-model-parallel-size": int,
    "--expert-tensor-parallel-size": int, "--cp-comm-type": ("p2p", "a2a", "allgather", "a2a+p2p"), "--use-tp-pp-dp-mapping": FLAG,
    "--sequence-parallel": FLAG, "--num-virtual-stages-per-pipeline-rank": int, "--decoder-first-pipeline-num-layers": int,
    "--microbatch-group-size-per-virtual-pipeline-stage": int,
    "--decoder-last-pipeline-num-layers": int, "--pipeline-model-parallel-layout": str, "--no-overlap-p2p-communication": FLAG,
    "--micro-batch-size": int, "--global-batch-size": int, "--recompute-granularity": ("full", "selective"), "--recompute-method": ("uniform", "block"),
    "--recompute-num-layers": int, "--recompute-modules": ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"),
    "--overlap-moe-expert-parallel-comm": FLAG, "--delay-wgrad-compute": FLAG,
    "--use-distributed-optimizer": FLAG, "--num-distributed-optimizer-instances": int, "--use-megatron-fsdp": FLAG,
    "--data-parallel-sharding-strategy": ("no_shard", "optim", "optim_grads", "optim_grads_params"), "--init-model-with-meta-device": FLAG,
    "--no-gradient-accumulation-fusion": FLAG, "--ckpt-format": ("torch", "torch_dist", "zarr", "torch_dcp", "fsdp_dtensor"),
    "--overlap-grad-reduce": FLAG, "--overlap-param-gather": FLAG, "--tp-comm-overlap": FLAG, "--accumulate-allreduce-grads-in-fp32": FLAG,
    "--grad-reduce-in-bf16": FLAG, "--attention-backend": ("flash", "fused", "unfused", "local", "auto"), "--bf16": FLAG, "--fp16": FLAG,
    "--fp8-format": ("e4m3", "hybrid"), "--transformer-impl": ("local", "transformer_engine"), "--cpu-offloading-num-layers": int,
    # the optimizer
    "--use-precision-aware-optimizer": FLAG, "--main-grads-dtype": ("fp32", "bf16"), "--main-params-dtype": ("fp32", "fp16"),
    "--exp-avg-dtype": ("fp32", "fp16", "bf16", "fp8"), "--exp-avg-sq-dtype": ("fp32", "fp16", "bf16", "fp8"), "--optimizer-cpu-offload": FLAG,
    "--optimizer-offload-fraction": float, "--overlap-cpu-optimizer-d2h-h2d": FLAG,
    "--optimizer": ("adam", "sgd", "muon", "dist_muon"), "--adam-beta1": float, "--adam-beta2": float, "--adam-eps": float, "--sgd-momentum": float,
    "--weight-decay": float, "--clip-grad": float, "--muon-momentum": float, "--muon-nesterov": FLAG, "--muon-num-ns-steps": int,
    "--muon-scale-mode": ("spectral", "unit_rms_norm", "shape_scaling"), "--muon-extra-scale-factor": float,
    "--muon-tp-mode": ("blockwise", "duplicated", "distributed"),
    # the run
    "--lr": float, "--min-lr": float, "--lr-decay-style": ("constant", "linear", "cosine", "inverse-square-root", "WSD"), "--lr-warmup-iters": int,
    "--train-iters": int, "--data-path": str, "--mock-data": FLAG, "--split": str, "--save": str, "--load": str, "--save-interval": int,
    "--log-interval": int, "--eval-iters": int, "--eval-interval": int, "--tokenizer-model": str,
    "--tokenizer-type": ("GPT2BPETokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "HuggingFaceTokenizer", "Llama2Tokenizer",
                         "TikTokenizer", "NullTokenizer"),
    "--distributed-timeout-minutes": int, "--log-throughput": FLAG,
}

MEGATRON_DEEPSPEED = {name: MEGATRON_LM[name] for name in (
    "--num-layers --hidden-size --ffn-hidden-size --num-attention-heads --kv-channels --max-position-embeddings --seq-length --rotary-percent "
    "--make-vocab-size-divisible-by --vocab-size --swiglu --no-bias-gelu-fusion --disable-bias-linear --untie-embeddings-and-output-weights "
    "--attention-dropout --hidden-dropout --tensor-model-parallel-size --pipeline-model-parallel-size --sequence-parallel --micro-batch-size "
    "--global-batch-size --recompute-granularity --recompute-method --recompute-num-layers --no-gradient-accumulation-fusion --bf16 --fp16 "
    "--transformer-impl --optimizer --adam-beta1 --adam-beta2 --adam-eps --sgd-momentum --weight-decay --clip-grad --lr --min-lr --lr-decay-style "
    "--lr-warmup-iters --train-iters --data-path --split --save --load --save-interval --log-interval --eval-iters --eval-interval --tokenizer-type "
    "--tokenizer-model").split()} | {
        "--num-key-value-heads": int, "--normalization": ("layernorm", "rmsnorm"), "--layernorm-epsilon": float, "--use-rotary-position-embeddings": FLAG,
        "--rotary-position-embeddings-theta": int, "--no-position-embedding": FLAG, "--num-experts": int, "--expert-interval": int, "--topk": int,
        "--create-moe-param-group": FLAG, "--moe-expert-parallel-size": int, "--enable-expert-tensor-parallelism": FLAG, "--moe-train-capacity-factor": float,
        "--disable-moe-token-dropping": FLAG, "--ds-sequence-parallel-size": int, "--no-pipeline-parallel": FLAG, "--enable-zbh1-pipeline": FLAG,
        "--zero-stage": int, "--use-flash-attn-v2": FLAG, "--fp8-hybrid": FLAG, "--deepspeed": FLAG, "--deepspeed_config": str,
        "--apply-layernorm-1p": FLAG}


def parser_of(table: dict) -> argparse.ArgumentParser:
    """Returns a parser that accepts what the trainer's own accepts, and raises ValueError where that stops with a usage error."""

    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise ValueError(message)

    parser = Parser(allow_abbrev=False, add_help=False)
    for name, kind in table.items():
        if kind is FLAG:
            parser.add_argument(name, action="store_true")
        elif isinstance(kind, tuple):
            parser.add_argument(name, choices=kind, nargs=None)
        else:
            parser.add_argument(name, type=kind)
    return parser


def check_megatron_lm(args: argparse.Namespace, ranks: int) -> None:
    """Raises ValueError where validate_args of Megatron-LM, or TransformerConfig, stops."""

    def need(kept, text):
        if not kept:
            raise ValueError(text)

    tensor, pipeline = args.tensor_model_parallel_size or 1, args.pipeline_model_parallel_size or 1
    context, expert = args.context_parallel_size or 1, args.expert_model_parallel_size or 1
    need(ranks % (tensor * pipeline * context) == 0, "the ranks are no multiple of tp x pp x cp")
    data = ranks // (tensor * pipeline * context)
    need(args.global_batch_size % (args.micro_batch_size * data) == 0, "global batch is no multiple of micro batch x dp")
    microbatches = args.global_batch_size // (args.micro_batch_size * data)
    need(ranks % (tensor * pipeline * expert) == 0, "the ranks are no multiple of tp x pp x ep")
    need(args.num_attention_heads % tensor == 0, "tensor parallelism does not divide the heads")
    groups = args.num_query_groups or args.num_attention_heads
    need(groups % tensor == 0 or tensor % groups == 0, "neither of tensor parallelism and the query groups divides the other")
    need(args.max_position_embeddings >= args.seq_length, "max_position_embeddings is below seq_length")
    need(context == 1 or args.seq_length % (2 * context) == 0, "the sequence is no multiple of 2 x cp")
    virtual = args.num_virtual_stages_per_pipeline_rank or 1
    if args.pipeline_model_parallel_layout:
        need(not args.num_virtual_stages_per_pipeline_rank, "only one of the layout and the virtual stages")
        parts = args.pipeline_model_parallel_layout.split("|")
        need(len(parts) % pipeline == 0, "the layout's parts are no multiple of pp")
        virtual = len(parts) // pipeline
        layers = sum(int(part.strip("EL")[2:] or 0) if "*" in part else part.count("t") for part in parts)
        need(layers == args.num_layers, f"the layout has {layers} layers")
    elif not (args.decoder_first_pipeline_num_layers or args.decoder_last_pipeline_num_layers):
        need(args.num_layers % (pipeline * virtual) == 0, "the layers are no multiple of the parts of the pipeline")
    else:
        rest = args.num_layers - (args.decoder_first_pipeline_num_layers or 0) - (args.decoder_last_pipeline_num_layers or 0)
        inner = pipeline - bool(args.decoder_first_pipeline_num_layers) - bool(args.decoder_last_pipeline_num_layers)
        need(inner == 0 or rest % inner == 0, "the inner stages have different numbers of layers")
    if virtual > 1:
        need(pipeline > (2 if args.no_overlap_p2p_communication else 1), "interleaving wants more stages")
        group = args.microbatch_group_size_per_virtual_pipeline_stage or pipeline
        need(pipeline <= group <= microbatches, "a group of microbatches has fewer than the stages, or more than the step")
        need(microbatches % group == 0 or microbatches % group >= pipeline, "the last group of microbatches has fewer than the stages")
    need(not args.overlap_param_gather or args.overlap_grad_reduce, "--overlap-param-gather wants --overlap-grad-reduce")
    need(not args.overlap_param_gather or args.use_distributed_optimizer or args.use_megatron_fsdp, "--overlap-param-gather wants shards")
    need(not args.tp_comm_overlap or args.sequence_parallel, "--tp-comm-overlap wants --sequence-parallel")
    if args.cpu_offloading_num_layers:
        need(args.cpu_offloading_num_layers < args.num_layers, "CPU offloading can be done only for fewer layers than all")
        need(pipeline == 1 and not args.recompute_granularity, "CPU offloading goes without pipelines and without recomputation")
    if args.use_megatron_fsdp:
        need(pipeline == 1 and args.ckpt_format == "fsdp_dtensor", "Megatron FSDP has no pipelines and its own checkpoints")
        need(args.no_gradient_accumulation_fusion, "Megatron FSDP has no gradient accumulation fusion")
    if args.recompute_granularity == "selective":
        need(args.recompute_method is None and args.recompute_num_layers is None, "selective recomputation has no method")
    elif args.recompute_granularity == "full":
        need(args.recompute_method and args.recompute_num_layers, "full recomputation wants a method and a number")
    need(not (args.bf16 and args.fp16), "one of --bf16 and --fp16")
    need(args.rope_type != "yarn" or args.multi_latent_attention, "--rope-type yarn is for latent attention")
    if args.num_experts:
        need(args.num_experts % expert == 0, "the experts are no multiple of ep")
        need(tensor == 1 or args.sequence_parallel, "MoE with tensor parallelism wants sequence parallelism")
        need(tensor == 1 or args.disable_bias_linear, "experts with biases go without tensor parallelism")
        need(not args.moe_router_enable_expert_bias or args.moe_router_score_function == "sigmoid", "expert bias wants sigmoid")
    aware = args.use_precision_aware_optimizer
    need(not aware or args.optimizer == "adam", "--use-precision-aware-optimizer is for adam")
    need(not aware or args.use_distributed_optimizer, "--use-precision-aware-optimizer is for the distributed optimizer")
    need(aware or not args.optimizer_cpu_offload, "--optimizer-cpu-offload wants --use-precision-aware-optimizer")
    need(aware or args.main_grads_dtype in (None, "fp32"), "--main-grads-dtype wants --use-precision-aware-optimizer")
    need(args.main_grads_dtype != "bf16" or not args.accumulate_allreduce_grads_in_fp32, "main gradients in bf16 are summed in bf16")
    if args.overlap_moe_expert_parallel_comm:
        need(args.num_experts and expert > 1, "overlap of expert parallelism wants expert parallelism")
        need(args.moe_token_dispatcher_type in ("alltoall", "flex"), "overlap of expert parallelism wants all-to-alls")
        need(pipeline == 1 or virtual > 1, "overlap of expert parallelism wants virtual stages in pipelines")
        need(args.recompute_granularity != "full", "overlap of expert parallelism goes without full recomputation")
        need(args.bf16 or args.fp16, "overlap of expert parallelism wants 16 bits")
    need(not args.delay_wgrad_compute or args.overlap_moe_expert_parallel_comm, "--delay-wgrad-compute wants the overlap of expert parallelism")
    need(not args.delay_wgrad_compute or args.transformer_impl in (None, "transformer_engine"), "--delay-wgrad-compute wants Transformer Engine")
    if args.expert_tensor_parallel_size:
        need(ranks % (args.expert_tensor_parallel_size * pipeline * expert) == 0, "the ranks are no multiple of etp x pp x ep")
    if "muon" in (args.optimizer or ""):
        need(not args.use_megatron_fsdp, "Muon goes without FSDP")
        need(args.ckpt_format in (None, "torch", "torch_dist"), "Muon has checkpoints of the formats torch and torch_dist")
        need(not (args.num_distributed_optimizer_instances or 1) > 1, "Muon shards states over all ranks")
        need(not args.fp16, "Muon runs in bf16 and fp32")
    need(args.attention_backend not in ("fused", "flash") or args.bf16 or args.fp16, "no fused attention in fp32")
