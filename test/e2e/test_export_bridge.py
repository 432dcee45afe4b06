#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf export --to megatron-bridge: the program runs, against classes in the place of Megatron Bridge's, and configures what the script for
Megatron-LM says. scripts/check-exports.sh runs such programs against Megatron Bridge itself."""
import importlib.util
import os
import sys
import types
import unittest.mock

from support import CLUSTERS, KerfTest, main
from test_export import LLAMA, LLAMA31, MIXTRAL, PLAN, arguments

H100 = os.path.join(CLUSTERS, "dgx-h100.json")
DEEPSEEK = {"model_type": "deepseek_v2", "num_hidden_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": 384,
            "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "intermediate_size": 4096, "moe_intermediate_size": 704,
            "n_routed_experts": 16, "n_shared_experts": 2, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "topk_method": "greedy", "vocab_size": 32001,
            "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.7, "mscale_all_dim": 0.7,
                             "original_max_position_embeddings": 4096}}
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 4, "n_positions": 1024, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}

# sections and fields of Megatron Bridge for arguments of Megatron-LM whose names differ
OTHER_NAMES = {
    "--norm-epsilon": "model.layernorm_epsilon", "--swiglu": "model.gated_linear_unit", "--num-experts": "model.num_moe_experts",
    "--use-rope-scaling": "model.rope_scaling", "--num-virtual-stages-per-pipeline-rank": "model.virtual_pipeline_model_parallel_size",
    "--decoder-first-pipeline-num-layers": "model.num_layers_in_first_pipeline_stage", "--decoder-last-pipeline-num-layers": "model.num_layers_in_last_pipeline_stage",
    "--global-batch-size": "train.global_batch_size", "--micro-batch-size": "train.micro_batch_size", "--use-distributed-optimizer": "ddp.use_distributed_optimizer",
    "--use-megatron-fsdp": "ddp.use_megatron_fsdp", "--data-parallel-sharding-strategy": "ddp.data_parallel_sharding_strategy",
    "--num-distributed-optimizer-instances": "ddp.num_distributed_optimizer_instances", "--overlap-grad-reduce": "ddp.overlap_grad_reduce",
    "--overlap-param-gather": "ddp.overlap_param_gather", "--ckpt-format": "checkpoint.ckpt_format", "--use-tp-pp-dp-mapping": "dist.use_tp_pp_dp_mapping",
    "--accumulate-allreduce-grads-in-fp32": "mixed_precision.grad_reduce_in_fp32", "--bf16": "mixed_precision.bf16", "--fp16": "mixed_precision.fp16",
    "--fp8-format": "mixed_precision.fp8", **{f"--{name}": f"optimizer.{name.replace('-', '_')}" for name in (
        "optimizer", "adam-beta1", "adam-beta2", "adam-eps", "weight-decay", "clip-grad", "use-precision-aware-optimizer", "optimizer-cpu-offload",
        "optimizer-offload-fraction", "overlap-cpu-optimizer-d2h-h2d")}}
NEGATED = {"--disable-bias-linear": "model.add_bias_linear", "--untie-embeddings-and-output-weights": "model.share_embeddings_and_output_weights",
           "--no-gradient-accumulation-fusion": "model.gradient_accumulation_fusion", "--no-bias-gelu-fusion": "model.bias_activation_fusion"}
WITHOUT_FIELD = {"--group-query-attention", "--max-position-embeddings", "--make-vocab-size-divisible-by", "--vocab-size", "--no-overlap-p2p-communication"}


class Named(str):
    """A function, a type or a value of an enumeration, by its name."""

    def __getattr__(self, name):
        return Named(f"{self}.{name}") if not name.startswith("__") else super().__getattribute__(name)

    def __call__(self, *values, **given):
        return types.SimpleNamespace(class_name=str(self), values=values, **given)


class Finder:
    """Finds every module of torch and of Megatron; everything in them is its name, and calls keep what they are given."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in ("torch", "megatron"):
            return importlib.util.spec_from_loader(name, Finder, is_package=True)

    @staticmethod
    def create_module(spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: Named(name) if not name.startswith("__") else None
        return module

    @staticmethod
    def exec_module(module):
        pass


def run(text, **variables):
    """Runs a program with variables of the environment up to its configuration."""
    names, kept = {"__name__": "job"}, set(sys.modules)
    sys.meta_path.insert(0, Finder)
    try:
        with unittest.mock.patch.dict(os.environ, variables):
            exec(compile(text, "job.py", "exec"), names)
            return names["job"]()
    finally:
        sys.meta_path.remove(Finder)
        for name in set(sys.modules) - kept:
            del sys.modules[name]


class Bridge(KerfTest):
    def export(self, target, model, plan, sequence=1024, dtype="bf16"):
        mesh = dict(dict.fromkeys(("stage", "data", "context", "expert", "model"), 1), **plan["mesh"])
        content = {"kerf": 1, "global_batch": 64, **plan, "mesh": mesh}
        return self.succeed("export", self.write("config.json", model), "--plan", self.write("plan.json", content), "--cluster", H100,
                            "--sequence", sequence, "--dtype", dtype, "--optimizer", "adamw", "--to", target)

    def test_configures_what_megatron_gets(self):
        cases = [(LLAMA, PLAN, 2048, "bf16"), (LLAMA31, {"mesh": {"data": 16}, "optimizer_sharding": 3}, 2048, "f8"),
                 (LLAMA, {"mesh": {"stage": 4, "data": 2}, "microbatch": 2, "schedule": {"name": "1f1b"}, "recompute": "selective",
                          "stages": [{"layers": [0, 2]}, {"layers": [3, 7]}, {"layers": [8, 12]}, {"layers": [13, 15]}]}, 2048, "bf16"),
                 (LLAMA, {"mesh": {"stage": 2, "data": 4}, "microbatch": 1, "schedule": {"name": "interleaved", "chunks": 2}, "overlap": ["stage"],
                          "stages": [{"layers": [0, 2]}, {"layers": [3, 7]}, {"layers": [8, 12]}, {"layers": [13, 15]}]}, 2048, "bf16"),
                 (MIXTRAL, {"mesh": {"expert": 4, "data": 2}, "optimizer_sharding": 1}, 1024, "bf16"),
                 (MIXTRAL, {"mesh": {"expert": 4, "data": 2}, "microbatch": 1, "optimizer_sharding": 1, "optimizer_states": "host",
                            "overlap": ["gradients", "experts"]}, 1024, "bf16"),
                 (DEEPSEEK, {"mesh": {"expert": 4, "model": 2}, "sequence_parallel": True}, 1024, "bf16"),
                 (GPT2, {"mesh": {"model": 2, "data": 2}, "optimizer_sharding": 0}, 1024, "f16")]
        for model, plan, sequence, dtype in cases:
            with self.subTest(model=model["model_type"], plan=plan):
                given = arguments(self.export("megatron", model, plan, sequence, dtype).stdout)
                done = self.export("megatron-bridge", model, plan, sequence, dtype)
                self.assertIn("torchrun --nnodes", done.stderr)
                config = run(done.stdout, DATA_PATH="a b", TOKENIZER_MODEL="words")
                self.assertEqual((config.dataset.blend, config.dataset.seq_length, config.model.seq_length), ((["a", "b"], None), sequence, sequence))
                compared = 0
                for name, value in given.items():
                    if name in WITHOUT_FIELD:
                        continue
                    wanted = {"--attention-backend": f"AttnBackend.{value}", "--recompute-modules": [value]}.get(name, value)
                    if name in NEGATED:
                        path, wanted = NEGATED[name], False
                    else:
                        path = OTHER_NAMES.get(name, "model." + name[2:].replace("-", "_"))
                    section, field = path.split(".")
                    found = getattr(getattr(config, section), field)
                    if name == "--moe-layer-freq":
                        wanted = eval(value)
                    elif isinstance(found, (int, float)) and not isinstance(found, bool):
                        wanted = float(value)
                    self.assertEqual(found, wanted, name)
                    compared += 1
                self.assertGreater(compared, 25)
                words, tensor = int(given["--vocab-size"]), int(given["--tensor-model-parallel-size"])
                self.assertEqual(config.model.vocab_size, -(-words // tensor) * tensor)
                mock = run(done.stdout, MOCK_DATA="1")
                self.assertEqual((mock.train.train_iters, mock.dataset.blend, mock.tokenizer.vocab_size, mock.checkpoint.save), (10, None, words - 1, None))

    def test_what_has_other_defaults(self):
        """Fields that Megatron-LM derives from its arguments, and of which Megatron Bridge has another default."""
        deepseek = run(self.export("megatron-bridge", DEEPSEEK, {"mesh": {"expert": 4}}).stdout, MOCK_DATA="1").model
        self.assertEqual((deepseek.class_name, deepseek.q_lora_rank, deepseek.multi_latent_attention), ("MLAModelProvider", 384, True))
        self.assertEqual(deepseek.transformer_layer_spec.func, "get_gpt_decoder_block_spec")
        interleaved = {"mesh": {"stage": 4, "data": 2}, "microbatch": 1, "schedule": {"name": "interleaved", "chunks": 2}}
        for overlap in ([], ["stage"]):
            its = run(self.export("megatron-bridge", LLAMA, dict(interleaved, overlap=overlap)).stdout, MOCK_DATA="1").model
            self.assertEqual((its.overlap_p2p_comm, its.batch_p2p_comm), (bool(overlap), not overlap))
        self.assertEqual((its.class_name, its.activation_func, its.bias_activation_fusion), ("GPTModelProvider", "silu", True))
        with self.assertRaises(SystemExit):
            run(self.export("megatron-bridge", LLAMA, {"mesh": {"data": 8}}).stdout)

    def test_another_table_of_positions_is_refused(self):
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 8}, "global_batch": 64})
        size = [self.write("config.json", GPT2), "--plan", plan, "--cluster", H100, "--dtype", "bf16", "--optimizer", "adamw", "--to", "megatron-bridge"]
        self.refuse(1, ["would train another model", "a row for each token of a sequence: 512", "--sequence 1024"], "export", *size, "--sequence", 512)
        self.succeed("export", *size, "--sequence", 1024)


if __name__ == "__main__":
    main()
