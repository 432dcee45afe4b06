#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plan keeps the job that it was made for: every command that takes it asks about the same model, options and machines."""
import json
import os
import shutil

from support import CLUSTERS, KerfTest, file_of, losses_of, main

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 1024, "n_head": 16, "n_inner": 4096, "vocab_size": 8192, "n_positions": 256}
SELENE = os.path.join(CLUSTERS, "selene.json")
A100 = os.path.join(CLUSTERS, "dgx-a100.json")
WHOLE = ("--dtype", "bf16", "--optimizer", "adamw", "--weight-decay", "0.1", "--beta2", "0.95", "--sequence", 256, "--global-batch", 64)


def notes_of(done):
    return [line for line in done.stderr.splitlines() if line.startswith("note: ")]


class Jobs(KerfTest):
    def whole(self, *more, cluster=SELENE):
        """A plan of the whole execution on 16 GPUs; gives its path."""
        self.succeed("plan", self.write("config.json", GPT), "--cluster", cluster, "--ranks", 16, *WHOLE, "-o", self.path("plan.json"), *more)
        return self.path("plan.json")

    def searched(self, *more):
        """A plan op by op for GPT-2's export on two ranks of this machine."""
        self.succeed("plan", file_of("gpt2"), "--ranks", 2, "--optimizer", "adamw", "--weight-decay", "0.03", "--lr", "0.002", "--lr-schedule",
                     "linear", "--warmup", 2, "--total", 6, "-o", self.path("searched.json"), *more)
        return self.path("searched.json")

    def job(self, path):
        with open(path) as file:
            return json.load(file)["job"]

    def predicted(self, path):
        with open(path) as file:
            return json.load(file)["predicted"]

    def test_what_a_job_says(self):
        job = self.job(self.whole())
        self.assertEqual(job["model"], self.path("config.json"))
        self.assertEqual({key: job["options"][key] for key in ("dtype", "optimizer", "weight_decay", "beta1", "beta2", "sequence", "global_batch")},
                         {"dtype": "bf16", "optimizer": "adamw", "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "sequence": 256,
                          "global_batch": 64})
        self.assertEqual((job["ranks"], job["cluster"]["name"]), (16, "Selene: 560 x DGX A100"))
        job = self.job(self.searched())
        self.assertEqual((job["ranks"], job["options"]["lr"], job["options"]["lr_schedule"]), (2, 0.002, "linear"))

    def test_simulate_says_what_the_plan_says(self):
        plan = self.whole()
        done = self.succeed("simulate", "--plan", plan, "--json")
        self.assertEqual(json.loads(done.stdout)["step_seconds"], self.predicted(plan)["step_seconds"])
        self.assertEqual(notes_of(done), [])
        self.assertEqual(json.loads(done.stdout)["peak_bytes"], self.predicted(plan)["peak_bytes"])

    def test_options_that_differ_are_told(self):
        plan = self.whole()
        done = self.succeed("simulate", self.path("config.json"), "--plan", plan, "--dtype", "f32", "--optimizer", "adamw", "--weight-decay", "1e-1",
                            "--cluster", A100, "--json")
        self.assertEqual(notes_of(done), ["note: --dtype f32 instead of the plan's bf16",
                                          f"note: --cluster {A100} instead of the plan's '{self.job(plan)['cluster']['name']}'"])
        self.assertGreater(json.loads(done.stdout)["step_seconds"], self.predicted(plan)["step_seconds"])
        done = self.succeed("simulate", "--plan", plan, "--optimizer", "sgd", "--frozen", "*wte*", "--json")
        self.assertEqual(notes_of(done), ["note: --frozen *wte* instead of the plan's default", "note: --optimizer sgd instead of the plan's adamw"])

    def test_export(self):
        plan = self.whole()
        done = self.succeed("export", "--plan", plan, "--to", "megatron")
        for words in ("--bf16", "--optimizer adam", "--adam-beta2 0.95", "--weight-decay 0.1", "--nnodes 2", "--nproc-per-node 8",
                      "--global-batch-size 64", "--seq-length 256"):
            self.assertIn(words, done.stdout + done.stderr)
        mlp = self.searched("--dtype", "bf16", "--reduce-dtype", "compute")
        done = self.succeed("export", "--plan", mlp, "--to", "deepspeed")  # the plan's hash is of the job's model
        self.assertIn('"bf16"', done.stdout)

    def test_verify(self):
        small = dict(GPT, n_layer=2, n_embd=64, n_head=4, n_inner=128, vocab_size=96, n_positions=32)
        self.succeed("plan", self.write("config.json", small), "--cluster", A100, "--ranks", 4, "--optimizer", "adamw", "--sequence", 32,
                     "--global-batch", 8, "-o", self.path("plan.json"))
        done = self.succeed("verify", "--plan", self.path("plan.json"), "--json")
        self.assertIsNone(json.loads(done.stdout)["difference"])

    def train(self, *more):
        log = self.path("train.jsonl")
        done = self.succeed("train", *more, "--data", file_of("gpt2", "batches.npz"), "--steps", 6, "--log", log)
        return losses_of(log), done

    def test_compile_and_run_train_as_the_job_says(self):
        plan = self.searched()
        options = ("--optimizer", "adamw", "--weight-decay", "0.03", "--lr", "0.002", "--lr-schedule", "linear", "--warmup", 2, "--total", 6)
        expected, _ = self.train(file_of("gpt2"), "--ranks", 2, *options)
        got, done = self.train("--plan", plan)
        self.assertEqual((got, notes_of(done)), (expected, []))
        self.succeed("compile", "--plan", plan, "-o", self.path("package"))
        done = self.succeed("run", self.path("package"), "--data", file_of("gpt2", "batches.npz"), "--steps", 6, "--log", self.path("run.jsonl"))
        self.assertEqual((losses_of(self.path("run.jsonl")), notes_of(done)), (expected, []))
        done = self.succeed("run", self.path("package"), "--data", file_of("gpt2", "batches.npz"), "--steps", 6, "--log", self.path("run.jsonl"), "--lr",
                            "0.01")
        self.assertEqual(notes_of(done), ["note: --lr 0.01 instead of the package's 0.002"])
        self.assertNotEqual(losses_of(self.path("run.jsonl")), expected)
        # Options that compile is told are kept, too.
        self.succeed("compile", file_of("gpt2"), "--ranks", 2, *options, "-o", self.path("package"))
        self.succeed("run", self.path("package"), "--data", file_of("gpt2", "batches.npz"), "--steps", 6, "--log", self.path("run.jsonl"))
        self.assertEqual(losses_of(self.path("run.jsonl")), expected)

    def test_train_saves_the_job_that_it_ran(self):
        expected, _ = self.train(file_of("gpt2"), "--optimizer", "adamw", "--lr", "0.003", "--frozen", "*wpe*", "--save-plan", self.path("saved.json"))
        job = self.job(self.path("saved.json"))
        self.assertEqual((job["options"]["optimizer"], job["options"]["frozen"]), ("adamw", ["*wpe*"]))
        got, _ = self.train("--plan", self.path("saved.json"))
        self.assertEqual(got, expected)
        again, done = self.train("--plan", self.path("saved.json"), "--lr", "0.01", "--save-plan", self.path("again.json"))
        self.assertEqual(notes_of(done), ["note: --lr 0.01 instead of the plan's 0.003"])
        self.assertEqual(self.job(self.path("again.json"))["options"]["lr"], 0.01)

    def test_a_checkpoint_has_a_learning_rate_of_its_own(self):
        plan = self.searched()
        self.train("--plan", plan, "--lr", "0.05", "--checkpoint", self.path("kept"))
        done = self.succeed("train", "--plan", plan, "--data", file_of("gpt2", "batches.npz"), "--steps", 7, "--resume", self.path("kept"), "--log",
                            self.path("on.jsonl"))
        self.assertNotIn("note: --lr", done.stderr)
        self.succeed("train", "--plan", plan, "--data", file_of("gpt2", "batches.npz"), "--steps", 7, "--lr", "0.05", "--resume", self.path("kept"),
                     "--log", self.path("told.jsonl"))
        self.assertEqual(losses_of(self.path("on.jsonl")), losses_of(self.path("told.jsonl")))

    def test_explain(self):
        plan = self.whole()
        self.assertIn("with leaf.bandwidth*2", self.succeed("explain", plan, "--what-if", "leaf.bandwidth*2").stdout)

    def test_models_that_are_elsewhere(self):
        os.mkdir(self.path("there"))
        shutil.copy(file_of("mlp"), self.path("there"))
        self.succeed("plan", "model.onnx", "-o", "plan.json", cwd=self.path("there"))
        self.refuse(1, ["plan.json", "'model.onnx'", "does not exist", "give MODEL"], "simulate", "--plan", "there/plan.json", cwd=self.folder)
        self.succeed("simulate", "there/model.onnx", "--plan", "there/plan.json", cwd=self.folder)
        self.refuse(1, ["MODEL is missing"], "simulate")
        self.refuse(1, ["MODEL is missing"], "compile", "-o", self.path("package"), "--plan", self.write("bare.json", {"kerf": 1}))

    def test_jobs_that_are_broken(self):
        def refused(words, job):
            self.refuse(1, ["plan.json", *words], "simulate", file_of("mlp"), "--plan", self.write("plan.json", {"kerf": 1, "job": job}))

        refused(["is 3, not an object"], 3)
        refused(["an older version"], {"arguments": ["model.onnx"], "cluster": {}, "constraints": {}})
        refused(["opttions"], {"opttions": {}})
        refused(["\"dtipe\""], {"options": {"dtipe": "f32"}})
        refused(["job.options.dtype", "null"], {"options": {"dtype": None}})
        refused(["has --dtype f17", "simulate"], {"options": {"dtype": "f17"}})
        refused(["job.cluster"], {"cluster": {}})
        # One by hand needs no more than it says.
        done = self.succeed("simulate", file_of("mlp"), "--plan", self.write("plan.json", {"kerf": 1, "job": {"options": {"dtype": "f64"}}}), "--json")
        by_option = self.succeed("simulate", file_of("mlp"), "--dtype", "f64", "--json")
        self.assertEqual(done.stdout, by_option.stdout)


if __name__ == "__main__":
    main()
