#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf export through the command line: files parse in their formats, numbers are the plan's, notes name what differs, bad input is refused."""
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import types
import unittest.mock

from support import CLUSTERS, KerfTest, file_of, kerf, main

try:
    import yaml
except ImportError:
    yaml = None

TARGETS = ("megatron", "torchtitan", "deepspeed", "nemo")
A100 = os.path.join(CLUSTERS, "dgx-a100.json")
MIXED = os.path.join(CLUSTERS, "a100-v100.json")
LLAMA = {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8,
         "intermediate_size": 5504, "vocab_size": 32000, "max_position_embeddings": 4096, "rope_theta": 500000}
LLAMA3 = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
          "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192, "rope_theta": 500000}
LLAMA31 = dict(LLAMA3, rms_norm_eps=1e-5, max_position_embeddings=131072,
               rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})
MIXTRAL = {"model_type": "mixtral", "num_hidden_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8,
           "intermediate_size": 3584, "vocab_size": 32000, "num_local_experts": 8}
PLAN = {"kerf": 1, "mesh": {"stage": 4, "data": 4, "context": 2, "model": 2}, "global_batch": 64, "microbatch": 2,
        "schedule": {"name": "interleaved", "chunks": 2}, "recompute": ["full", "full", "none", "none"], "optimizer_sharding": 1,
        "sequence_parallel": True}


def words_of(script):
    """As a shell reads them. shlex keeps the end of a line behind a backslash, which a shell drops."""
    return shlex.split(script.replace("\\\n", " "), comments=True)


def arguments(script):
    """name -> value of what follows the program; flags without a value: True."""
    words = words_of(script)
    words = words[words.index("pretrain_gpt.py") + 1:]
    if words[-1] == "$@":
        words.pop()
    given, at = {}, 0
    while at < len(words):
        assert words[at].startswith("--"), words[at]
        assert words[at] not in given, f"{words[at]} is given twice"
        value = at + 1 < len(words) and not words[at + 1].startswith("--")
        given[words[at]] = words[at + 1] if value else True
        at += 2 if value else 1
    return given


class Export(KerfTest):
    def export(self, target, plan=PLAN, config=LLAMA, *more, cluster=A100):
        return self.succeed("export", config if isinstance(config, str) else self.write("config.json", config), "--plan",
                            self.write("plan.json", plan), "--cluster", cluster, "--dtype", "bf16", "--optimizer", "adamw", "--to", target, *more)

    def test_megatron(self):
        done = self.export("megatron")
        given = arguments(done.stdout)
        number = lambda name: int(given[name])
        self.assertEqual(number("--tensor-model-parallel-size"), 2)
        self.assertEqual(number("--pipeline-model-parallel-size"), 4)
        self.assertEqual(number("--context-parallel-size"), 2)
        words = words_of(done.stdout)
        ranks = int(words[words.index("--nnodes") + 1]) * int(words[words.index("--nproc-per-node") + 1])
        self.assertEqual(ranks, 64)
        data = ranks // (number("--tensor-model-parallel-size") * number("--pipeline-model-parallel-size") * number("--context-parallel-size"))
        self.assertEqual(data, 4)
        self.assertEqual(number("--global-batch-size") // (data * number("--micro-batch-size")), 8)
        self.assertEqual((number("--num-layers"), number("--hidden-size"), number("--num-query-groups"), number("--seq-length")),
                         (16, 2048, 8, 2048))
        self.assertEqual(number("--rotary-base"), 500000)
        self.assertEqual(number("--num-virtual-stages-per-pipeline-rank"), 2)
        for flag in ("--bf16", "--swiglu", "--sequence-parallel", "--use-distributed-optimizer", "--untie-embeddings-and-output-weights"):
            self.assertIs(given[flag], True)
        for text in (done.stdout, done.stderr):
            self.assertIn('recompute = ["full","full","none","none"]: one value for all stages', text)
        # The shell reads what shlex does: the command itself is another's, so a function stands for it.
        path = self.write("run.sh", "torchrun() { printf '%s\\n' \"$@\"; }\n" + done.stdout)
        shell = subprocess.run(["sh", path], stdout=subprocess.PIPE, text=True, check=True,
                               env=dict(os.environ, MOCK_DATA="1", NODE_RANK="0", MASTER_ADDR="first")).stdout.splitlines()
        wanted = words[words.index("pretrain_gpt.py"):-1]
        at = shell.index("pretrain_gpt.py")
        self.assertEqual(shell[at:at + len(wanted)], wanted)

    def test_forms_of_models(self):
        """What config.json says, and what it leaves to its class's defaults, as Megatron-LM's arguments."""
        scaled = dict(LLAMA, rope_theta=10000, rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                             "original_max_position_embeddings": 8192})
        stretched = dict(LLAMA, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 25000})
        del stretched["rope_theta"]
        for config, wanted in (
                (scaled, {"--rotary-base": "10000", "--use-rope-scaling": True, "--rope-scaling-factor": "8.0", "--normalization": "RMSNorm"}),
                (stretched, {"--rotary-base": "25000", "--rotary-seq-len-interpolation-factor": "4"}),
                ({"model_type": "mixtral", "num_hidden_layers": 8}, {"--rotary-base": "1000000", "--num-experts": "8", "--moe-ffn-hidden-size": "14336", "--moe-router-topk": "2"}),
                ({"model_type": "qwen3"}, {"--qk-layernorm": True, "--kv-channels": "128", "--disable-bias-linear": True}),
                ({"model_type": "qwen2"}, {"--add-qkv-bias": True, "--disable-bias-linear": True}),
                ({"model_type": "gpt_neox", "use_parallel_residual": False}, {"--rotary-percent": "0.25", "--rotary-base": "10000", "--no-bias-gelu-fusion": True}),
                ({"model_type": "gpt2"}, {"--num-layers": "12", "--vocab-size": "50257", "--position-embedding-type": "learned_absolute"}),
                ({"model_type": "deepseek_v3", "num_hidden_layers": 5, "n_routed_experts": 16}, {"--kv-lora-rank": "512", "--qk-pos-emb-head-dim": "64", "--moe-layer-freq": "([0]*3+[1]*2)",
                                                 "--moe-shared-expert-intermediate-size": "2048", "--moe-router-num-groups": "8"})):
            given = arguments(self.export("megatron", {"kerf": 1, "mesh": {"data": 8}, "microbatch": 1, "recompute": "full", "optimizer_sharding": 3}, config).stdout)
            for name, value in wanted.items():
                self.assertEqual(given.get(name), value, f"{name} of {config}")

    def test_torchtitan(self):
        done = self.export("torchtitan", PLAN, LLAMA31)
        job = tomllib.loads(done.stdout)
        p = job["parallelism"]
        self.assertEqual(p["tensor_parallel_degree"] * p["pipeline_parallel_degree"] * p["context_parallel_degree"] *
                         p["data_parallel_replicate_degree"] * p["data_parallel_shard_degree"], 64)
        self.assertEqual((job["model"]["name"], job["model"]["flavor"]), ("llama3", "8B"))
        parts = p["module_fqns_per_model_part"]
        self.assertEqual(len(parts), 8)
        self.assertEqual([name for part in parts for name in part],
                         ["tok_embeddings", *(f"layers.{layer}" for layer in range(32)), "norm", "output"])
        self.assertEqual(job["training"]["local_batch_size"], 16)
        self.assertEqual(p["pipeline_parallel_microbatch_size"], 2)
        self.assertIsInstance(job["optimizer"]["eps"], float)
        self.assertIn("torchtitan.train", done.stderr)

    def test_flavors_of_torchtitan(self):
        """A flavor is named only where every size and form is the model's; another model is refused in TOML, and described in Python."""
        qwen = {"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960, "rope_theta": 1000000}
        experts = dict(qwen, model_type="qwen3_moe", num_hidden_layers=48, hidden_size=2048, num_key_value_heads=4, moe_intermediate_size=768,
                       num_experts=128, num_experts_per_tok=8, norm_topk_prob=True)
        plan = {"kerf": 1, "mesh": {"data": 32}, "microbatch": 1, "recompute": "full", "optimizer_sharding": 3}
        for config, name, flavor in ((LLAMA31, "llama3", "8B"), (qwen, "qwen3", "8B"), (experts, "qwen3", "30B-A3B")):
            model = tomllib.loads(self.export("torchtitan", plan, config).stdout)["model"]
            self.assertEqual((model["name"], model["flavor"]), (name, flavor))
            self.assertIn(f'model_registry("{flavor}")', self.export("torchtitan-0.3", plan, config).stdout)
        for base, changes in ((LLAMA31, {"rope_scaling": None}), (LLAMA31, {"vocab_size": 128000}), (LLAMA31, {"rms_norm_eps": 1e-6}),
                              (LLAMA31, {"num_hidden_layers": 31}), (LLAMA31, {"rope_scaling": dict(LLAMA31["rope_scaling"], factor=32.0)}),
                              (LLAMA31, {"tie_word_embeddings": True}), (qwen, {"rope_theta": 10000}), (qwen, {"attention_bias": True}),
                              (qwen, {"head_dim": 64}), (experts, {"num_experts_per_tok": 4})):
            done = kerf("export", self.write("config.json", dict(base, **changes)), "--plan", self.write("plan.json", plan), "--cluster", A100, "--dtype",
                        "bf16", "--optimizer", "adamw", "--to", "torchtitan")
            self.assertEqual(done.returncode, 1, changes)
            self.assertIn("none of which has exactly these sizes and forms", done.stderr)
            self.assertNotIn("model_registry", self.export("torchtitan-0.3", plan, dict(base, **changes)).stdout)

    def test_torchtitan_of_python(self):
        """The module runs against classes in the place of TorchTitan's, which keep what they are given."""
        done = self.export("torchtitan-0.3", PLAN, LLAMA31, "-o", self.path("titan_job.py"))
        self.assertIn("-m torchtitan.train --module titan_job --config job", done.stdout)
        self.assertIn("PYTHONPATH=", done.stdout)

        class StandIn(types.SimpleNamespace):
            Config = types.SimpleNamespace

        def fields(*names):
            def make(**given):
                assert set(given) <= set(names), set(given) - set(names)
                return types.SimpleNamespace(**given)
            return make

        made = {
            "TrainingConfig": fields("steps", "local_batch_size", "global_batch_size", "seq_len", "max_norm", "mixed_precision_param",
                                     "mixed_precision_reduce", "disable_cuda_graphs"),
            "ParallelismConfig": fields("data_parallel_replicate_degree", "data_parallel_shard_degree", "fsdp_reshard_after_forward",
                                        "tensor_parallel_degree", "enable_sequence_parallel", "pipeline_parallel_degree", "module_fqns_per_model_part",
                                        "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv", "pipeline_parallel_microbatch_size", "context_parallel_degree",
                                        "context_parallel_load_balancer", "expert_parallel_degree"),
            "CompileConfig": fields("enable", "enable_async_tensor_parallel"), "FullAC": StandIn, "SelectiveAC": StandIn, "Trainer": StandIn,
            "default_adamw": lambda **given: given, "model_registry": lambda flavor: flavor, "decoder_vocab_size": lambda spec: 128256,
            "BaseTokenizer": type("BaseTokenizer", (), {"Config": type("Config", (), {})}), "DATASETS": {},
        }

        class Finder:
            """Finds every module of TorchTitan and of its packages; a name without an entry above is a class with a Config."""

            @staticmethod
            def find_spec(name, path=None, target=None):
                if name.split(".")[0] in ("torchtitan", "datasets", "torch"):
                    return importlib.util.spec_from_loader(name, Finder, is_package=True)

            @staticmethod
            def create_module(spec):
                module = types.ModuleType(spec.name)
                module.__getattr__ = lambda name: made.get(name, StandIn) if not name.startswith("__") else None
                return module

            @staticmethod
            def exec_module(module):
                pass

        names = {"__name__": "titan_job", "__file__": self.path("titan_job.py")}
        kept = set(sys.modules)
        sys.meta_path.insert(0, Finder)
        try:
            exec(compile(self.read("titan_job.py"), "titan_job.py", "exec"), names)
            config = names["job"]()
        finally:
            sys.meta_path.remove(Finder)
            for name in set(sys.modules) - kept:
                del sys.modules[name]
        p = config.parallelism
        self.assertEqual((p.tensor_parallel_degree, p.pipeline_parallel_degree, p.context_parallel_degree, p.enable_sequence_parallel), (2, 4, 2, True))
        self.assertEqual(p.data_parallel_shard_degree * p.data_parallel_replicate_degree, 4)
        self.assertEqual([name for part in p.module_fqns_per_model_part for name in part],
                         ["tok_embeddings", *(f"layers.{layer}" for layer in range(32)), "norm", "lm_head"])
        self.assertEqual((config.model_spec, config.training.disable_cuda_graphs, config.optimizer["betas"]), ("8B", True, (0.9, 0.999)))

    def test_orders_that_torchtitan_reads(self):
        """Zero-bubble plans for TorchTitan 0.3 lose nothing: the file of the order has every task once, no stage waits for ever, and the time of the
        schedule in the order of the file is that of the plan's."""
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"stage": 4}, "schedule": {"name": "zero-bubble", "variant": "2p"}, "recompute": "none"})
        self.succeed("plan", self.write("llama3.json", dict(LLAMA3, num_hidden_layers=8)), "--for", "torchtitan-0.3", "--cluster", A100, "--ranks", 8,
                     "--all-ranks", "--global-batch", 32, "--sequence", 1024, "--dtype", "bf16", "--optimizer", "adamw", "--weight-decay", 0, "--budget", 2,
                     "--top", 0, "--constraints", pins, "-o", self.path("found.json"))
        plan = json.loads(self.read("found.json"))
        self.assertIn("stage", plan["overlap"])
        done = self.succeed("export", "--plan", self.path("found.json"), "--to", "torchtitan-0.3", "-o", self.path("job.py"))
        self.assertIn("All of the plan is expressed.", done.stdout)
        self.assertIn("pipeline_parallel_schedule_csv=SCHEDULE", self.read("job.py").decode())
        rows = [row.split(",") for row in self.read("job.schedule.csv").decode().splitlines()]
        microbatches = 32 // plan["microbatch"] // plan["mesh"]["data"]
        self.assertEqual([sorted(row) for row in rows],
                         [sorted(f"{stage}{kind}{m}" for kind in "FIW" for m in range(microbatches)) for stage in range(4)])
        done_at, waiting = set(), [list(row) for row in rows]
        while any(waiting):  # each round runs the first task of a stage whose inputs are there
            ready = [row for row in waiting if row and self.inputs_of(row[0], 4) <= done_at]
            self.assertTrue(ready, "every stage waits")
            for row in ready:
                done_at.add(row.pop(0))
        refused = self.refuse(1, ["job.schedule.csv".replace("job", "torchtitan_job"), "--output"], "export", "--plan", self.path("found.json"), "--to", "torchtitan-0.3")
        self.assertEqual(refused.stdout, "")

    @staticmethod
    def inputs_of(task, stages):
        """Returns the tasks that have to end before a task of a schedule with one part a stage."""
        stage, kind, microbatch = re.fullmatch(r"(\d+)([FIW])(\d+)", task).groups()
        stage = int(stage)
        before = {"F": [(stage - 1, "F")], "I": [(stage, "F"), (stage + 1, "I")], "W": [(stage, "I")]}[kind]
        return {f"{part}{what}{microbatch}" for part, what in before if 0 <= part < stages}

    def test_offload_for_megatron(self):
        """Pinned offload is planned for Megatron-LM as its argument does it, for all layers but the last, and the export loses nothing."""
        pins = self.write("pins.json", {"kerf": 1, "recompute": "offload"})
        self.succeed("plan", self.write("llama3.json", dict(LLAMA3, num_hidden_layers=8)), "--for", "megatron", "--cluster", A100, "--ranks", 8, "--all-ranks",
                     "--global-batch", 32, "--sequence", 1024, "--dtype", "bf16", "--optimizer", "adamw", "--weight-decay", 0, "--budget", 2, "--top", 0,
                     "--constraints", pins, "-o", self.path("found.json"))
        plan = json.loads(self.read("found.json"))
        self.assertEqual((plan["recompute"], plan["mesh"]["stage"]), ({"0-6": "offload"}, 1))
        for target, words in (("megatron", "--cpu-offloading-num-layers 7"), ("megatron-bridge", "cpu_offloading_num_layers=7")):
            done = self.succeed("export", "--plan", self.path("found.json"), "--to", target, "-o", self.path("exported"))
            self.assertIn("All of the plan is expressed.", done.stdout)
            self.assertIn(words, self.read("exported").decode())
            expected = float(re.search(r"Expected as written: (\S+) s a step", done.stdout).group(1))
            self.assertAlmostEqual(expected / plan["predicted"]["step_seconds"], 1, delta=0.02)

    def test_deepspeed(self):
        plan = dict(PLAN, mesh={"stage": 4, "data": 4, "model": 2})
        self.export("deepspeed", plan, LLAMA, "-o", self.path("ds.json"))
        config = json.loads(self.read("ds.json"))
        self.assertEqual(config["train_batch_size"], config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * 4)
        done = self.export("deepspeed", plan, LLAMA, "--json")
        answer = json.loads(done.stdout)
        self.assertEqual(json.loads(answer["config"]), config)
        given = arguments(answer["launch"])
        self.assertEqual((given["--tensor-model-parallel-size"], given["--pipeline-model-parallel-size"], given["--zero-stage"]), ("2", "4", "1"))
        differs = {decision["key"] for decision in answer["decisions"] if decision["kind"] == "differs"}
        self.assertLessEqual({"schedule.name", "schedule.chunks", "recompute"}, differs)

    def test_accelerate(self):
        plan = {"kerf": 1, "mesh": {"data": 4, "context": 2, "model": 2}, "order": ["data", "context", "model"], "global_batch": 64, "microbatch": 2,
                "recompute": "full", "optimizer_sharding": 3}
        done = self.export("accelerate", plan, LLAMA, "-o", self.path("accelerate.yaml"))
        self.assertIn("accelerate launch --config_file", done.stdout)
        for argument in ("--per_device_train_batch_size 2", "--gradient_accumulation_steps 8", "--gradient_checkpointing True", "--adam_beta1 0.9"):
            self.assertIn(argument, done.stdout)
        stages = self.export("accelerate", dict(plan, mesh={"stage": 2, "data": 2, "model": 2}, order=["stage", "data", "model"])).stderr
        self.assertIn("mesh.stage = 2: there is no pipeline parallelism in training: these 2 ranks are data-parallel ranks", stages)
        if importlib.util.find_spec("accelerate") is None:
            self.skipTest("needs the Python package accelerate, which reads the file")
        from accelerate.commands.config.config_args import load_config_from_file

        config = load_config_from_file(self.path("accelerate.yaml"))
        self.assertEqual((str(config.distributed_type.value), config.num_processes, config.num_machines, config.mixed_precision), ("FSDP", 16, 2, "bf16"))
        self.assertEqual({key.removeprefix("parallelism_config_"): value for key, value in config.parallelism_config.items()},
                         {"dp_replicate_size": 1, "dp_shard_size": 4, "cp_size": 2, "tp_size": 2, "cp_comm_strategy": "alltoall"})
        from accelerate.commands.launch import launch_command_parser

        known = {action.dest for action in launch_command_parser()._actions}
        self.assertLessEqual({*config.fsdp_config, *config.parallelism_config}, known)

    def test_transformers(self):
        plan = {"kerf": 1, "mesh": {"data": 4, "model": 2}, "order": ["data", "model"], "global_batch": 64, "microbatch": 2, "optimizer_sharding": 3,
                "optimizer_sharding_ranks": 2}
        self.export("transformers", plan, LLAMA, "-o", self.path("config.out"))
        config = json.loads(self.read("config.out"))
        self.assertEqual((config["tp_size"], config["fsdp_size"], config["dp_replicate_size"], config["fsdp_mixed_precision"]), (2, 2, 2, True))
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("needs the Python package transformers, which reads the file")
        try:
            from transformers.distributed.configuration_utils import DistributedConfig
        except ImportError:
            self.skipTest("needs a Transformers that has DistributedConfig, 5.20 or newer")
        self.assertLessEqual(set(config), set(DistributedConfig.__dataclass_fields__))
        self.assertEqual(DistributedConfig.from_dict(config).dp_replicate_size, 2)

    def test_nanotron(self):
        """The keys are fields of Nanotron's configuration classes, and the numbers are those of the plan."""
        plan = {"kerf": 1, "mesh": {"stage": 2, "data": 4, "model": 2}, "global_batch": 64, "microbatch": 2, "recompute": "full", "optimizer_sharding": 1,
                "sequence_parallel": True, "schedule": {"name": "gpipe"}}
        done = self.export("nanotron", plan, LLAMA, "-o", self.path("nanotron.yaml"))
        self.assertIn("run_train.py --config-file", done.stdout)
        self.assertIn("Nanotron cuts the model itself", done.stdout)
        solved = self.export("nanotron", dict(plan, optimizer_sharding=3, recompute="selective"), LLAMA).stderr
        for note in ("optimizer_sharding = 3: ZeRO-1 shards optimizer states only", "whole layers are recomputed"):
            self.assertIn(note, solved)
        self.refuse(1, ["Nanotron would train another model", "Nanotron has no mixtral"], "export", self.write("mixtral.json", MIXTRAL), "--plan",
                    self.write("plan.json", plan), "--cluster", A100, "--dtype", "bf16", "--optimizer", "adamw", "--to", "nanotron")
        if yaml is None:
            self.skipTest("python3-yaml is not installed")
        config = yaml.safe_load(self.read("nanotron.yaml"))
        fields = {"parallelism": "dp pp tp pp_engine tp_mode tp_linear_async_communication recompute_layer context_parallel_size",
                  "tokens": "sequence_length micro_batch_size batch_accumulation_per_replica",
                  "optimizer": "optimizer_factory zero_stage weight_decay clip_grad accumulate_grad_in_fp32",
                  "model": "model_config dtype"}
        self.assertEqual(set(config), set(fields))
        for section, names in fields.items():
            self.assertLessEqual(set(config[section]), set(names.split()))
        self.assertLessEqual(set(config["optimizer"]["optimizer_factory"]), set("name adam_eps adam_beta1 adam_beta2 torch_adam_is_fused".split()))
        self.assertLessEqual(set(config["model"]["model_config"]), set(
            "is_llama_config rope_interleaved hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads vocab_size "
            "max_position_embeddings rms_norm_eps rope_theta attention_bias tie_word_embeddings".split()))
        parallelism, tokens = config["parallelism"], config["tokens"]
        self.assertEqual((parallelism["dp"], parallelism["pp"], parallelism["tp"], parallelism["pp_engine"], parallelism["tp_mode"]),
                         (4, 2, 2, "afab", "REDUCE_SCATTER"))
        self.assertEqual(parallelism["dp"] * tokens["micro_batch_size"] * tokens["batch_accumulation_per_replica"], 64)
        self.assertIs(parallelism["recompute_layer"], True)
        self.assertEqual((config["optimizer"]["zero_stage"], config["model"]["dtype"], config["model"]["model_config"]["num_key_value_heads"]),
                         (1, "bfloat16", 8))
        self.assertIsInstance(config["optimizer"]["optimizer_factory"]["adam_eps"], float)

    def test_ms_swift(self):
        """Every argument has an underscored name and a value, as ms-swift's parser of dataclasses wants."""
        done = self.export("ms-swift")
        words = words_of(done.stdout)
        self.assertIn("NNODES=8", words)
        self.assertIn("NPROC_PER_NODE=8", words)
        words = words[words.index("pt") + 1:-1]
        given = dict(zip(words[::2], words[1::2], strict=True))
        for name, value in given.items():
            self.assertRegex(name, "^--[a-z0-9_]+$")
            self.assertNotRegex(value, "^--")
        for name, value in (("tensor_model_parallel_size", "2"), ("pipeline_model_parallel_size", "4"), ("context_parallel_size", "2"),
                            ("virtual_pipeline_model_parallel_size", "2"), ("global_batch_size", "64"), ("micro_batch_size", "2"),
                            ("sequence_parallel", "true"), ("use_distributed_optimizer", "true"), ("recompute_granularity", "full"),
                            ("bf16", "true"), ("max_length", "2048"), ("optimizer", "adam")):
            self.assertEqual(given.get("--" + name), value, name)
        self.assertIn('recompute = ["full","full","none","none"]: one value for all stages', done.stderr)
        plain = self.export("ms-swift", {"kerf": 1, "mesh": {"data": 8}, "optimizer_sharding": 0, "recompute": "none"}).stdout
        self.assertIn("--use_distributed_optimizer false", plain)  # ms-swift has other defaults than Megatron-LM
        self.assertIn("--recompute_granularity none", plain)
        groups = self.export("ms-swift", {"kerf": 1, "mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_sharding_ranks": 4}).stderr
        self.assertIn("optimizer_sharding_ranks = 4: states are sharded over all ranks", groups)
        fsdp = self.export("ms-swift", {"kerf": 1, "mesh": {"data": 8}, "optimizer_sharding": 3}).stdout
        for text in ("--use_megatron_fsdp true", "--gradient_accumulation_fusion false", "--data_parallel_sharding_strategy optim_grads_params"):
            self.assertIn(text, fsdp)
        self.assertNotIn("ckpt", fsdp)
        self.assertNotIn("--init_model", fsdp)  # ms-swift 4.6 refuses arguments that it does not know

    def test_nemo(self):
        done = self.export("nemo", PLAN, LLAMA, "-o", self.path("plan.yaml"))
        self.assertIn("--config-name plan", done.stdout)
        if yaml is None:
            self.skipTest("python3-yaml is not installed")
        config = yaml.safe_load(self.read("plan.yaml"))
        m, trainer = config["model"], config["trainer"]
        self.assertEqual(trainer["num_nodes"] * trainer["devices"], 64)
        self.assertEqual((m["tensor_model_parallel_size"], m["pipeline_model_parallel_size"], m["context_parallel_size"]), (2, 4, 2))
        self.assertEqual(m["virtual_pipeline_model_parallel_size"], 2)
        self.assertIs(m["sequence_parallel"], True)
        self.assertEqual(m["optim"]["eps"], 1e-8)
        self.assertEqual(m["layernorm_epsilon"], 1e-6)

    def test_found_plans(self):
        """What the whole-plan search finds is exported by every target, with a decision for every key of the file."""
        config = self.write("mixtral.json", MIXTRAL)
        size = ["--cluster", A100, "--sequence", 1024, "--dtype", "bf16", "--optimizer", "adamw"]
        self.succeed("plan", config, *size, "--ranks", 16, "--all-ranks", "--global-batch", 32, "-o", self.path("found.json"))
        with open(self.path("found.json")) as file:
            plan = json.load(file)
        keys = set(plan) - {"mesh", "schedule"} | {f"mesh.{axis}" for axis in plan["mesh"]} | {f"schedule.{key}" for key in plan["schedule"]}
        for target in ("megatron", "torchtitan-0.3", "deepspeed", "nemo"):
            if target in ("deepspeed", "nemo") and plan["mesh"].get("expert", 1) > 1:
                continue
            answer = json.loads(self.succeed("export", config, *size, "--plan", self.path("found.json"), "--to", target, "--json").stdout)
            self.assertLessEqual(keys, {decision["key"] for decision in answer["decisions"]}, target)

    def test_plans_for_a_target_lose_nothing(self):
        """plan --for T, then export --to T: every decision of the plan is expressed, and of such a model all of it."""
        jobs = [(16, 64, 4096, {}), (32, 64, 8192, {"mesh": {"stage": 4}}), (16, 32, 8192, {"mesh": {"model": 2, "stage": 2}}),
                (16, 64, 4096, {"mesh": {"stage": 4, "data": 4}, "schedule": {"name": "1f1b"}}),
                (32, 32, 8192, {"mesh": {"context": 2}}), (64, 128, 4096, {"mesh": {"stage": 2, "model": 8}})]
        for target in TARGETS:
            config = self.write("llama3.json", LLAMA31 if target == "torchtitan" else LLAMA3)
            for ranks, batch, sequence, pins in jobs:
                with self.subTest(target=target, ranks=ranks, pins=pins):
                    self.succeed("plan", config, "--for", target, "--cluster", A100, "--ranks", ranks, "--global-batch", batch, "--sequence", sequence,
                                 "--dtype", "bf16", "--optimizer", "adamw", "--weight-decay", 0, "--budget", 4, "--top", 0, "--constraints",
                                 self.write("pins.json", dict(pins, kerf=1)), "-o", self.path("found.json"))
                    planned = json.loads(self.read("found.json"))["predicted"]["step_seconds"]
                    for file in {"torchtitan": ("torchtitan", "torchtitan-0.3"), "megatron": ("megatron", "megatron-bridge")}.get(target, (target,)):
                        done = self.succeed("export", "--plan", self.path("found.json"), "--to", file, "-o", self.path("exported"))
                        self.assertIn("All of the plan is expressed.", done.stdout)
                        expected = float(re.search(r"Expected as written: (\S+) s a step", done.stdout).group(1))
                        self.assertAlmostEqual(expected / planned, 1, delta=0.02)

    def test_plans_of_experts_for_a_target_lose_no_decision(self):
        config = self.write("mixtral.json", dict(MIXTRAL, num_hidden_layers=16, hidden_size=4096))
        for target, file in (("megatron", "megatron"), ("megatron", "megatron-bridge"), ("torchtitan-0.3", "torchtitan-0.3"),
                             ("deepspeed", "deepspeed"), ("nemo", "nemo")):
            for pins in ({}, {"mesh": {"stage": 1}}):
                self.succeed("plan", config, "--for", target, "--cluster", A100, "--ranks", 16, "--global-batch", 64, "--sequence", 4096, "--dtype", "bf16",
                             "--optimizer", "adamw", "--budget", 4, "--top", 0, "--constraints", self.write("pins.json", dict(pins, kerf=1)), "-o",
                             self.path("found.json"))
                answer = json.loads(self.succeed("export", "--plan", self.path("found.json"), "--to", file, "--json").stdout)
                lost = [one for one in answer["decisions"] if one["kind"] == "differs" and not one["key"].startswith(("model.", "optimizer."))]
                self.assertEqual(lost, [], target)

    def test_pins_that_a_target_runs_in_some_meshes_only(self):
        """TorchTitan replicates parameters on data-parallel ranks alone: with sharding pinned to 0 the plan has no other ranks."""
        size = [self.write("config.json", dict(LLAMA, num_hidden_layers=4)), "--for", "torchtitan", "--cluster", A100, "--ranks", 8, "--all-ranks",
                "--global-batch", 64, "--sequence", 1024, "--dtype", "bf16", "--optimizer", "adamw", "--budget", 1, "--top", 0]
        self.succeed("plan", *size, "--constraints", self.write("pins.json", {"kerf": 1, "optimizer_sharding": 0}), "-o", self.path("found.json"))
        self.assertEqual(json.loads(self.read("found.json"))["mesh"]["data"], 8)
        self.refuse(2, ["mesh.stage = 2"], "plan", *size, "--constraints", self.write("pins.json", {"kerf": 1, "optimizer_sharding": 0, "mesh": {"stage": 2}}))

    def test_for_is_refused_where_it_says_nothing(self):
        config = self.write("llama3.json", LLAMA3)
        self.refuse(1, ["Megatron-LM does not train on CPUs"], "plan", config, "--for", "megatron", "--ranks", 2)
        self.refuse(1, ["--search placement", "--for is nemo"], "plan", config, "--for", "nemo", "--search", "placement", "--cluster", A100)
        zero = self.write("pins.json", {"kerf": 1, "schedule": {"name": "zero-bubble"}})
        self.refuse(1, ["schedule is zero-bubble", "TorchTitan"], "plan", config, "--for", "torchtitan", "--optimizer", "adamw", "--cluster", A100, "--dtype",
                    "bf16", "--constraints", zero)
        self.refuse(1, ["groups of devices"], "plan", config, "--for", "deepspeed", "--cluster", MIXED, "--dtype", "f16")
        old = self.write("old.json", {"kerf": 1, "stage_sends": "whole"})
        self.refuse(1, ["stage_sends", "habit of the trainer", "--for"], "simulate", config, "--plan", old, "--cluster", A100)

    def test_who_runs_a_plan_changes_its_price(self):
        """The same plan on the same machines: many small kernels cost eager PyTorch more than a runtime of its own."""
        small = self.write("small.json", dict(LLAMA3, hidden_size=1024, num_attention_heads=8, intermediate_size=2816))
        plan = self.write("data.json", {"kerf": 1, "mesh": {"data": 8}, "microbatch": 1, "global_batch": 8})
        common = ["simulate", small, "--cluster", A100, "--plan", plan, "--sequence", 1024, "--dtype", "bf16", "--optimizer", "adamw", "--json"]
        seconds = {who: json.loads(self.succeed(*common, "--for", who).stdout)["step_seconds"] for who in ("kerf", *TARGETS)}
        self.assertEqual(json.loads(self.succeed(*common).stdout)["step_seconds"], seconds["kerf"])
        for target in TARGETS:
            self.assertGreater(seconds[target], 1.5 * seconds["kerf"], target)

    def test_a_searched_plan_has_no_key_that_is_unknown(self):
        pins = {"kerf": 1, "ops": {"*mlp*": {"recompute": True}}}
        self.succeed("plan", self.write("config.json", dict(LLAMA, num_hidden_layers=4)), "--cluster", A100, "--ranks", 8, "--dtype", "bf16",
                     "--optimizer", "adamw", "--global-batch", 16, "--sequence", 1024, "--constraints", self.write("pins.json", pins), "-o",
                     self.path("found.json"))
        with open(self.path("found.json")) as file:
            found = json.load(file)
        self.assertEqual(found["ops"], pins["ops"])
        for target in ("megatron", "torchtitan-0.3", "deepspeed", "nemo"):
            notes = self.export(target, found, dict(LLAMA, num_hidden_layers=4)).stderr
            self.assertNotIn("kerf export does not know", notes)
            self.assertIn("recomputation of single ops is left out", notes)

    def test_exports_and_their_strategies(self):
        """A plan of strategies op by op, on an ONNX model whose sizes nobody knows."""
        self.succeed("plan", file_of("gpt2"), "--ranks", 4, "--all-ranks", "-o", self.path("found.json"))
        self.refuse(1, ["would train another model", "model.sizes"], "export", file_of("gpt2"), "--plan", self.path("found.json"), "--to", "torchtitan")
        for target in ("megatron", "deepspeed", "nemo"):
            done = self.succeed("export", file_of("gpt2"), "--plan", self.path("found.json"), "--to", target)
            for key in ("model.sizes = ", "ops = ", "arguments = "):
                self.assertIn(key, done.stderr)

    def test_layouts_are_compared(self):
        """Pins of Megatron-LM's layout on a configuration's names, and pins of another one."""
        config = self.write("gpt2.json", {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 96, "n_positions": 64})
        megatron = {"transformer.wte.weight": [["model"], []], "transformer.h.*.attn.c_attn.weight": [[], [], ["model"], []],
                    "transformer.h.*.attn.c_proj.weight": [["model"], [], []], "transformer.h.*.mlp.c_fc.weight": [[], ["model"]],
                    "transformer.h.*.mlp.c_fc.bias": [["model"]], "transformer.h.*.mlp.c_proj.weight": [["model"], []],
                    "transformer.h.*.ln_1.weight": [[]]}
        pins = {"kerf": 1, "mesh": {"data": 2, "model": 2}, "arguments": megatron}
        said = self.succeed("export", config, "--plan", self.write("pins.json", pins), "--to", "megatron").stderr
        self.assertNotIn("arguments = ", said)
        pins["arguments"] = dict(megatron, **{"transformer.wte.weight": [[], ["model"]]})
        said = self.succeed("export", config, "--plan", self.write("pins.json", pins), "--to", "megatron").stderr
        self.assertIn("shards 1 of 7 differently, the first of them transformer.wte.weight", said)

    def test_refused(self):
        config, plan = self.write("config.json", LLAMA), self.write("plan.json", PLAN)
        common = ["export", config, "--cluster", A100, "--dtype", "bf16", "--optimizer", "adamw"]
        done = kerf(*common, "--plan", plan, "--to", "keras")
        self.assertEqual(done.returncode, 1)
        for word in ("--to", "keras", "megatron", "nemo"):
            self.assertIn(word, done.stderr)
        self.refuse(1, ["missing.json"], *common, "--plan", self.path("missing.json"), "--to", "nemo")
        self.refuse(1, ["missing.json"], "export", self.path("missing.json"), "--plan", plan, "--to", "nemo")
        self.refuse(1, ["missing.json"], "export", config, "--plan", plan, "--to", "nemo", "--cluster", self.path("missing.json"))
        self.refuse(1, ["no/such/folder"], *common, "--plan", plan, "--to", "nemo", "-o", self.path("no/such/folder/x"))
        broken = self.write("broken.json", "{")
        self.refuse(1, ["broken.json", "JSON"], *common, "--plan", broken, "--to", "nemo")
        cut = self.write("cut.json", dict(PLAN, schedule={"name": "1f1b"}, stages=[{"layers": [4 * i, 4 * i + 2]} for i in range(4)]))
        self.refuse(1, ["stages", "stage 1", "layer 4", "layer 3"], *common, "--plan", cut, "--to", "megatron")
        large = self.write("large.json", dict(PLAN, mesh={"data": 4096}))
        self.refuse(1, ["4096 ranks", "128"], *common, "--plan", large, "--to", "megatron")

    def test_plans_of_something_else(self):
        config = self.write("config.json", LLAMA)
        for key, words in (("model_sha256", ["another model", "feed", "--sequence"]), ("cluster_sha256", ["another cluster", "feed"])):
            plan = self.write("plan.json", dict(PLAN, inputs={key: "feed" * 16}))
            self.refuse(1, ["plan.json", *words], "export", config, "--plan", plan, "--cluster", A100, "--to", "megatron")
        # Without a cluster there is nothing to compare.
        plan = self.write("plan.json", dict(PLAN, inputs={"cluster_sha256": "feed" * 16}))
        self.succeed("export", config, "--plan", plan, "--to", "megatron")

    def test_mixed_clusters_are_refused(self):
        config = self.write("config.json", LLAMA)
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"stage": 4, "data": 32}, "global_batch": 64})
        for target in TARGETS:
            self.refuse(1, ["mixed cluster", "64 A100", "64 V100", "at most 64 ranks"], "export", config, "--plan", plan, "--cluster", MIXED, "--to", target)


if __name__ == "__main__":
    main()
