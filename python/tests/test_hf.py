#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans as settings of Transformers and Accelerate. KERF_ALL=1 trains on four processes too, and compares with one process."""
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

import kerf
import kerf.hf

ALL = bool(os.environ.get("KERF_ALL"))
LLAMA = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=32)
PLAN = {"mesh": {"data": 4, "model": 2}, "global_batch": 64, "microbatch": 4, "recompute": "full"}


def needs(*packages):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"needs the Python package {', '.join(missing)}")


def tiny_llama(**changes):
    """Returns a LLaMA with two layers and seeded weights in float64."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{**LLAMA, **changes})).double().eval()


def exported(module, path):
    """Exports the module's own loss, whose parameters keep their names and values."""
    import torch

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self._modules, self._parameters, self._buffers = module._modules, module._parameters, module._buffers

        def forward(self, input_ids, labels):
            return module(input_ids=input_ids, labels=labels, use_cache=False).loss

    ids = torch.zeros((8, 16), dtype=torch.long)
    program = torch.onnx.export(Loss(), (), kwargs={"input_ids": ids, "labels": ids}, dynamo=True, opset_version=20, optimize=False, verbose=False)
    values = program.model.graph.initializers
    names = {name for name, _ in module.named_parameters(remove_duplicate=False)} & set(values)
    kept = {name: values[name].const_value for name in names}
    for name in names:  # the optimizer would fold them into constants
        values[name].const_value = None
    program.optimize()
    for name in names & set(values):
        values[name].const_value = kept[name]
    program.save(path)


def batches(steps):
    import torch

    return torch.randint(0, LLAMA["vocab_size"], (steps, 8, 16), generator=torch.Generator().manual_seed(1))


def train(model, rows, reduce, scale=1.0):
    """Trains four steps of SGD with momentum; returns the losses."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    losses = []
    for batch in batches(4):
        optimizer.zero_grad()
        # Transformers' own loss is computed in float32, whose rounding would hide small differences.
        logits, labels = model(input_ids=batch[rows]).logits[:, :-1], batch[rows][:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        (loss * scale).backward()
        optimizer.step()
        losses.append(reduce(loss.detach()))
    return losses


def worker(folder):
    """One of four processes: trains the saved model under each configuration; process 0 writes the losses."""
    import torch
    import torch.distributed as dist
    from transformers import LlamaForCausalLM
    from transformers.distributed import DistributedConfig

    dist.init_process_group("gloo")
    with open(os.path.join(folder, "configs.json")) as file:
        configs = [DistributedConfig.from_dict(config) for config in json.load(file)]

    def mean(loss):
        loss = loss.to_local() if hasattr(loss, "to_local") else loss.clone()
        dist.all_reduce(loss)
        return loss.item() / dist.get_world_size()

    losses = []
    for config in configs:
        model = LlamaForCausalLM.from_pretrained(os.path.join(folder, "model"), dtype=torch.float64, distributed_config=config)
        groups = config.fsdp_size * config.dp_replicate_size
        mine = dist.get_rank() // config.tp_size
        losses.append(train(model, slice(mine * 8 // groups, (mine + 1) * 8 // groups), mean))
    if dist.get_rank() == 0:
        with open(os.path.join(folder, "losses.json"), "w") as file:
            json.dump(losses, file)
    dist.destroy_process_group()


class Settings(unittest.TestCase):
    @needs("accelerate")
    def test_accelerate_has_the_axes(self):
        config = kerf.hf.parallelism_config({**PLAN, "optimizer_sharding": 3})
        self.assertEqual((config.dp_replicate_size, config.dp_shard_size, config.tp_size, config.cp_size, config.sp_size), (1, 4, 2, 1, 1))
        config = kerf.hf.parallelism_config({**PLAN, "optimizer_sharding": 2, "optimizer_sharding_ranks": 2})
        self.assertEqual((config.dp_replicate_size, config.dp_shard_size), (2, 2))
        config = kerf.hf.parallelism_config({"mesh": {"data": 2, "context": 4}, "context_style": "ulysses", "optimizer_sharding": 3})
        self.assertEqual((config.cp_size, config.sp_size), (1, 4))
        with self.assertWarnsRegex(kerf.Warning, "optimizer_sharding is 0 beside mesh.model 2"):
            self.assertEqual(kerf.hf.parallelism_config(PLAN).dp_shard_size, 4)
        with self.assertRaisesRegex(kerf.InputError, "mesh.stage is 2, but Accelerate trains without pipelines"):
            kerf.hf.parallelism_config({"mesh": {"stage": 2}})
        with self.assertRaisesRegex(kerf.InputError, "order of axes is model, data, but ranks are always numbered"):
            kerf.hf.parallelism_config({**PLAN, "order": ["model", "data"]})

    def test_training_arguments(self):
        settings = kerf.hf.training_arguments(PLAN)
        self.assertEqual((settings["per_device_train_batch_size"], settings["gradient_accumulation_steps"], settings["gradient_checkpointing"]),
                         (4, 4, True))
        config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 96}
        optimizer = kerf.AdamW(beta1=0.8, weight_decay=0.1)
        plan = kerf.plan(kerf.Model.from_config(config, global_batch=8), "dgx-a100", ranks=2, dtype="bf16", optimizer=optimizer,
                         constraints={"mesh": {"data": 2}}, progress=False)
        with self.assertWarnsRegex(kerf.Warning, "Trainer decays neither biases nor norms"):
            planned = kerf.hf.training_arguments(plan)
        self.assertEqual({name: planned[name] for name in ("optim", "adam_beta1", "weight_decay", "bf16", "max_grad_norm")},
                         {"optim": "adamw_torch", "adam_beta1": 0.8, "weight_decay": 0.1, "bf16": True, "max_grad_norm": 0.0})
        if importlib.util.find_spec("transformers") and importlib.util.find_spec("accelerate"):
            from transformers import TrainingArguments

            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(TrainingArguments(output_dir=folder, use_cpu=True, **settings).gradient_accumulation_steps, 4)
        with self.assertRaisesRegex(kerf.InputError, "global_batch 64 is not a multiple of 4 data ranks times microbatch 3"):
            kerf.hf.training_arguments({**PLAN, "microbatch": 3})
        with self.assertRaisesRegex(kerf.InputError, "recompute is 'selective'"):
            kerf.hf.training_arguments({**PLAN, "recompute": "selective"})


def callback_plan(ranks):
    """Returns the plan of a tiny LLaMA on data ranks."""
    model = kerf.Model.from_config({"model_type": "llama", **LLAMA}, global_batch=8, sequence=16)
    return kerf.plan(model, "dgx-a100", ranks=ranks, dtype="f32", optimizer=kerf.AdamW(weight_decay=0.0),
                     constraints={"mesh": {"data": ranks}, "microbatch": 2, "recompute": "none", "optimizer_sharding": 0},
                     all_ranks=True, progress=False)


def train_with_callback(plan, folder, **changes):
    """Trains six steps by Trainer under the callback of a plan; returns the callback and the log of Trainer."""
    import torch
    from transformers import Trainer, TrainingArguments

    callback = kerf.hf.plan_callback(plan)
    settings = {**kerf.hf.training_arguments(plan), "max_steps": 6, "logging_steps": 2, "report_to": [], "disable_tqdm": True, **changes}
    ids = torch.randint(0, LLAMA["vocab_size"], (48, 16), generator=torch.Generator().manual_seed(1))
    trainer = Trainer(model=tiny_llama().float(), args=TrainingArguments(output_dir=folder, use_cpu=True, save_strategy="no", **settings),
                      train_dataset=[{"input_ids": row, "labels": row} for row in ids], callbacks=[callback])
    trainer.train()
    return callback, trainer.state.log_history


def callback_worker(folder):
    """One of two processes that train by Trainer under a plan of two data ranks; process 0 writes the records."""
    plan = callback_plan(2)
    callback, _ = train_with_callback(plan, folder)
    if os.environ["RANK"] == "0":
        with open(os.path.join(folder, "records.json"), "w") as file:
            json.dump(callback.records, file)


@needs("torch", "transformers", "accelerate")
class Callback(unittest.TestCase):
    def test_one_process(self):
        plan = callback_plan(1)
        with tempfile.TemporaryDirectory() as folder:
            callback, log = train_with_callback(plan, folder)
            self.assertEqual([record["step"] for record in callback.records], [2, 4, 6])
            for record in callback.records:
                self.assertGreater(record["kerf_step_seconds"], 0)
                self.assertEqual(record["kerf_predicted_step_seconds"], plan.predicted.step_seconds)
                self.assertEqual(record["kerf_predicted_memory_bytes"], max(plan.predicted.peak_bytes))
                self.assertGreater(record["kerf_memory_bytes"], 1 << 20)
            self.assertTrue(all("kerf_step_seconds" in entry for entry in log if "loss" in entry))
            for changes, message in (({"gradient_accumulation_steps": 1}, "gradient_accumulation_steps is 1, but the plan says 4"),
                                     ({"gradient_checkpointing": True}, "gradient_checkpointing is True, but the plan says False"),
                                     ({"adam_beta1": 0.5}, "adam_beta1 is 0.5, but the plan says 0.9"),
                                     ({"optim": "sgd"}, "optim is sgd, but the plan says adamw_torch")):
                with self.assertRaisesRegex(kerf.InputError, message):
                    train_with_callback(plan, folder, **changes)
            settings = kerf.hf.training_arguments(plan)
            two = kerf.hf.plan_callback(callback_plan(2))
            from transformers import TrainingArguments

            args = TrainingArguments(output_dir=folder, use_cpu=True, **settings)
            faults = "1 processes, but the plan has 2 ranks; gradient_accumulation_steps is 4, but the plan says 2"
            with self.assertRaisesRegex(kerf.InputError, faults):
                two.on_train_begin(args, None, None)
        with self.assertRaisesRegex(kerf.InputError, "the plan has no prediction"):
            kerf.hf.plan_callback(PLAN)

    @unittest.skipUnless(ALL, "KERF_ALL=1 trains on two processes")
    def test_two_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            processes = [subprocess.Popen([sys.executable, __file__, "--callback", folder],
                                          env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
                                               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for rank in range(2)]
            self.assertEqual([process.wait(600) for process in processes], [0, 0])
            with open(os.path.join(folder, "records.json")) as file:
                self.assertEqual([record["step"] for record in json.load(file)], [2, 4, 6])


@needs("torch", "transformers", "accelerate", "onnxscript")
class Transformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = tiny_llama()
        cls.path = os.path.join(cls.folder.name, "model.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported(cls.model, cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def plan(self, constraints):
        return kerf.plan(self.path, ranks=4, dtype="f64", constraints=constraints, progress=False)

    def test_megatron_layout_is_the_models_own_rules(self):
        config = kerf.hf.transformers_config(self.plan({"mesh": {"data": 2, "model": 2}}), self.model)
        self.assertEqual((config.tp_size, config.fsdp_size * config.dp_replicate_size), (2, 2))
        self.model._resolve_parallel_plans(config)  # Transformers' own check of the rules

    def test_refusals(self):
        with self.assertRaisesRegex(kerf.InputError, "mesh.stage is 2, but Transformers trains without pipelines"):
            kerf.hf.transformers_config({"mesh": {"stage": 2}}, self.model)
        plan = self.plan({"mesh": {"model": 4, "data": 1}})
        other = tiny_llama()
        other.model.layers[0].mlp.gate_proj.register_parameter("scale", other.model.norm.weight.__class__(other.model.norm.weight.detach().clone()))
        with self.assertRaisesRegex(kerf.InputError, "the plan has no parameter model.layers.0.mlp.gate_proj.scale"):
            kerf.hf.transformers_config(plan, other)

    @unittest.skipUnless(ALL, "KERF_ALL=1 trains on four processes")
    def test_training_equals_one_process(self):
        one = train(tiny_llama(), slice(0, 8), lambda loss: loss.item())
        wrong = train(tiny_llama(), slice(0, 8), lambda loss: loss.item(), scale=0.5)
        self.assertGreater(abs(wrong[3] - one[3]) / one[3], 1e-4)  # a wrong scale of the gradient would be seen
        self.model.save_pretrained(os.path.join(self.folder.name, "model"))
        pins = [{"mesh": {"data": 2, "model": 2}}, {"mesh": {"data": 4}}, {"mesh": {"data": 1, "model": 4}},
                {"mesh": {"data": 2, "model": 2}, "optimizer_sharding": 2}, {"mesh": {"data": 4}, "optimizer_sharding": 3},
                {"mesh": {"data": 2, "model": 2}, "arguments": {"lm_head.weight": [["model"], []]}},
                {"mesh": {"data": 2, "model": 2}, "arguments": {"model.layers.*.mlp.down_proj.weight": [["model"], []]}}]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kerf.Warning)
            configs = [kerf.hf.transformers_config(self.plan(constraints), self.model) for constraints in pins]
        # Both ways to cut a block are there: as the model's own rules, and module by module.
        styles = [config.tp_plan["model.layers.*.mlp.down_proj"] for config in configs if config.tp_plan]
        self.assertIn("rowwise", styles)
        self.assertIn("colwise_rep", styles)
        with open(os.path.join(self.folder.name, "configs.json"), "w") as file:
            json.dump([config.to_dict() for config in configs], file)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = [subprocess.Popen([sys.executable, __file__, "--worker", self.folder.name],
                                      env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4", "OMP_NUM_THREADS": "1",
                                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for rank in range(4)]
        self.assertEqual([process.wait(600) for process in processes], [0] * 4)
        with open(os.path.join(self.folder.name, "losses.json")) as file:
            found = json.load(file)
        for constraints, losses in zip(pins, found, strict=True):
            with self.subTest(constraints=constraints):
                for loss, expected in zip(losses, one, strict=True):
                    self.assertLess(abs(loss - expected) / expected, 1e-10)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2])
    elif sys.argv[1:2] == ["--callback"]:
        callback_worker(sys.argv[2])
    else:
        unittest.main()
