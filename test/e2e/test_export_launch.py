#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exported files run as they are: scripts are executable, take variables and arguments, and start each node's processes; files
state what to expect of the plan as the target runs it. Stand-ins for torchrun, srun and scontrol print what they are given."""
import json
import os
import re
import subprocess

from support import CLUSTERS, KerfTest, kerf, main
from trainer_arguments import MEGATRON_LM, check_megatron_lm, parser_of

try:
    import yaml
except ImportError:
    yaml = None

A100 = os.path.join(CLUSTERS, "dgx-a100.json")
LLAMA = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4,
         "intermediate_size": 5504, "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
PLAN = {"kerf": 1, "mesh": {"stage": 2, "data": 4, "model": 2}, "global_batch": 32, "microbatch": 1, "optimizer_sharding": 1, "sequence_parallel": True}
PRINT = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"


class Launch(KerfTest):
    def export(self, target, out, *more, plan=PLAN, model=LLAMA, cluster=A100):
        return self.succeed("export", self.write("config.json", model), "--plan", self.write("plan.json", plan), "--cluster", cluster, "--sequence", 2048,
                            "--dtype", "bf16", "--optimizer", "adamw", "--to", target, "-o", self.path(out), *more)

    def programs(self, **texts):
        """A folder of programs that stand for those of a cluster."""
        folder = self.path("programs")
        os.makedirs(folder, exist_ok=True)
        for name, text in texts.items():
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
        return folder

    def start(self, path, *arguments, folder, status=0, **variables):
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
        done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.splitlines() if status == 0 else done.stderr

    def test_megatron_script(self):
        done = self.export("megatron", "train.sh")
        folder, script = self.programs(torchrun=PRINT), self.path("train.sh")
        self.assertIn(f"Start with\n  {script}\n", done.stdout)
        node = {"NODE_RANK": "1", "MASTER_ADDR": "first"}
        words = self.start(script, "--log-interval", "3", folder=folder, MOCK_DATA="1", **node)
        program = words.index("pretrain_gpt.py")
        options = dict(zip(words[:program:2], words[1:program:2]))
        self.assertEqual((options["--nnodes"], options["--nproc-per-node"], options["--node-rank"], options["--master-addr"], options["--master-port"]),
                         ("2", "8", "1", "first", "29500"))
        args = parser_of(MEGATRON_LM).parse_args(words[program + 1:])
        check_megatron_lm(args, 16)
        self.assertTrue(args.mock_data)
        self.assertEqual((args.train_iters, args.log_interval, args.vocab_size + 1, args.lr), (10, 3, 32000, 3e-4))
        words = self.start(script, folder=folder, DATA_PATH="text", TOKENIZER_MODEL="llama", LEARNING_RATE="0.01", STEPS="7", **node)
        args = parser_of(MEGATRON_LM).parse_args(words[program + 1:])
        self.assertEqual((args.data_path, args.tokenizer_model, args.lr, args.train_iters, args.vocab_size), ("text", "llama", 0.01, 7, 32000))
        self.assertIn("DATA_PATH", self.start(script, folder=folder, status=2, **node))
        self.assertIn("NODE_RANK", self.start(script, folder=folder, status=2, MOCK_DATA="1"))

    def test_slurm(self):
        """sbatch starts one task on each node; each runs the script with its own number, and with the arguments of the batch script."""
        for target, out, started, program in (("megatron", "train.sh", "train.sh", "pretrain_gpt.py"),
                                              ("torchtitan-0.3", "job.py", "job.launch.sh", "torchtitan.train")):
            done = self.export(target, out, "--launcher", "slurm")
            self.assertIn(f"Start with\n  sbatch {self.path(started)}\n", done.stdout)
            text = self.read(started).decode()
            self.assertRegex(text, r"\n# Expected as written: \S+ s a step")
            self.assertRegex(text, r"\n# No plan has these, so set them: .*LEARNING_RATE")
            self.assertIn("#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8", text)
            folder = self.programs(torchrun=PRINT, scontrol="#!/bin/sh\necho node7\necho node8\n",
                                   srun="#!/bin/sh\nshift\nfor SLURM_NODEID in 0 1; do export SLURM_NODEID; \"$@\"; done\n")
            words = self.start(self.path(started), "--extra", "a b", folder=folder, SLURM_JOB_NODELIST="node[7-8]", SLURM_JOB_ID="12345", MOCK_DATA="1")
            self.assertEqual([words[at + 1] for at, word in enumerate(words) if word == "--node-rank"], ["0", "1"])
            self.assertEqual({words[at + 1] for at, word in enumerate(words) if word == "--master-addr"}, {"node7"})
            self.assertEqual({words[at + 1] for at, word in enumerate(words) if word == "--master-port"}, {"22345"})
            self.assertEqual(words.count(program), 2)
            self.assertEqual(words[-2:], ["--extra", "a b"])

    def test_kubernetes_and_skypilot(self):
        if yaml is None:
            self.skipTest("python3-yaml is not installed")
        folder = self.programs(torchrun=PRINT)
        for target, out, started in (("megatron", "train.yaml", "train.yaml"), ("deepspeed", "ds.json", "ds.launch.yaml")):
            done = self.export(target, out, "--launcher", "kubernetes")
            self.assertIn(f"kubectl apply -f {self.path(started)}", done.stdout)
            service, job = yaml.safe_load_all(self.read(started))
            spec, pod = job["spec"], job["spec"]["template"]["spec"]
            self.assertEqual((spec["completions"], spec["completionMode"]), (2, "Indexed"))
            container = pod["containers"][0]
            self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"], 8)
            address = next(one["value"] for one in container["env"] if one["name"] == "MASTER_ADDR")
            self.assertEqual(address, f"{job['metadata']['name']}-0.{service['metadata']['name']}")
            self.export(target, out, "--launcher", "skypilot")
            task = yaml.safe_load(self.read(started))
            self.assertEqual((task["num_nodes"], task["resources"]["accelerators"]), (2, "YOUR_GPU:8"))
            for script, variables in ((container["command"][2], {"NODE_RANK": "1", "MASTER_ADDR": address}),
                                      (task["run"], {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"})):
                done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True,
                                      env={"PATH": f"{folder}:{os.environ['PATH']}", "MOCK_DATA": "1", **variables})
                words = done.stdout.splitlines()
                self.assertEqual(words[words.index("--node-rank") + 1], "1")
                self.assertIn("pretrain_gpt.py", words)
        self.refuse(1, ["--launcher", "stablehlo"], "export", "model.mlir", "--plan", self.write("plan.json", PLAN), "--to", "stablehlo", "--launcher", "slurm")
        self.refuse(1, ["--launcher", "--output"], "export", self.write("config.json", LLAMA), "--plan", self.write("plan.json", PLAN), "--cluster", A100,
                    "--sequence", 2048, "--dtype", "bf16", "--optimizer", "adamw", "--to", "deepspeed", "--launcher", "slurm")

    def test_what_to_expect(self):
        """The head has the figures of kerf simulate --for the target, on the plan as the target runs it."""
        given = dict(PLAN, schedule={"name": "zero-bubble", "variant": "2p"}, optimizer_sharding=3)
        runs = dict(PLAN, schedule={"name": "1f1b"}, optimizer_sharding=1)
        size = ["--cluster", A100, "--sequence", 2048, "--dtype", "bf16", "--optimizer", "adamw", "--json"]
        for plan in (PLAN, given):
            done = self.export("megatron", "train.sh", plan=plan)
            found = re.search(r"^# Expected as written: ([\d.e+-]+) s a step, ([\d.e+-]+) tokens/s, ([\d.]+) of ([\d.]+) GiB", self.read("train.sh").decode(), re.M)
            told = json.loads(self.succeed("simulate", self.path("config.json"), "--plan", self.write("runs.json", runs), "--for", "megatron", *size).stdout)
            self.assertAlmostEqual(float(found.group(1)) / told["step_seconds"], 1, delta=0.02)
            self.assertAlmostEqual(float(found.group(2)) / told["tokens_per_second"], 1, delta=0.02)
            self.assertIn("Expected as written", done.stdout)

    def test_what_no_longer_fits(self):
        """A plan that shards gradients in a pipeline fits with Kerf; Megatron-LM keeps them whole, which does not fit: nothing is written."""
        model = dict(LLAMA, num_hidden_layers=52, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336)
        plan = {"kerf": 1, "mesh": {"stage": 2, "data": 16}, "global_batch": 32, "microbatch": 1, "recompute": "full", "optimizer_sharding": 2}
        cluster = os.path.join(CLUSTERS, "dgx-a100-40gb.json")
        size = [self.write("config.json", model), "--plan", self.write("plan.json", plan), "--cluster", cluster, "--sequence", 4096, "--dtype", "bf16",
                "--optimizer", "adamw"]
        self.assertTrue(json.loads(self.succeed("simulate", *size, "--json").stdout)["fits"])
        done = kerf("export", *size, "--to", "megatron", "-o", self.path("train.sh"))
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("as Megatron-LM runs it", "GiB of the", "--for megatron", "optimizer_sharding = 2"):
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(self.path("train.sh")))


if __name__ == "__main__":
    main()
