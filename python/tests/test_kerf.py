#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package: answers equal those of the command line, wrong inputs raise the documented exception with its message, and
threads, pickles and interrupts work. KERF_ALL=1 runs the long forms too."""
import copy
import dataclasses
import gc
import json
import logging
import os
import pickle
import resource
import signal
import subprocess
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

import kerf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
MLP = os.path.join(ROOT, "test", "models", "mlp", "model.onnx")
BATCHES = os.path.join(ROOT, "test", "models", "mlp", "batches.npz")
LARGE = {"model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96, "n_positions": 2048, "vocab_size": 51200}  # GPT-3 175B
CONFIG = {"model_type": "gpt2", "n_embd": 1024, "n_layer": 4, "n_head": 16, "n_positions": 1024, "vocab_size": 51200}
ALL = bool(os.environ.get("KERF_ALL"))


def command(*arguments, status=0):
    """Returns the text of the command line on standard output, or its message where it has to fail."""
    done = subprocess.run([KERF, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stderr}"
    return done.stdout if status == 0 else [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1][len("error: "):]


def golden(name):
    with open(os.path.join(ROOT, "test", "models", "mlp", "golden.json")) as file:
        return json.load(file)["losses"][name]


def batches():
    with np.load(BATCHES) as arrays:
        return {name: arrays[name] for name in arrays.files}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Planning(unittest.TestCase):
    def test_plan_is_that_of_the_command_line(self):
        plan = kerf.plan(MLP, ranks=2, optimizer=kerf.SGD(momentum=0.9), progress=False)
        told = json.loads(command("plan", MLP, "--ranks", "2", "--momentum", "0.9", "--json"))
        ours = plan.to_dict()
        self.assertEqual(ours.pop("job")["options"], {**told.pop("job")["options"]})
        self.assertEqual(ours, told)
        self.assertEqual(plan.ranks, plan.mesh.get("data", 1) * plan.mesh.get("model", 1))
        self.assertIn("<iframe", plan._repr_html_())
        self.assertIn("step", str(plan))

    def test_whole_plan_is_that_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as file:
                json.dump(CONFIG, file)
            cluster = os.path.join(ROOT, "clusters", "dgx-a100.json")
            told = json.loads(command("plan", path, "--cluster", cluster, "--ranks", "4", "--dtype", "bf16", "--global-batch", "8", "--top", "1", "--json"))
            plan = kerf.plan(kerf.Model.load(path, global_batch=8), "dgx-a100", ranks=4, dtype="bf16", top=1, progress=False)
            self.assertEqual(plan.to_dict(), told)
            self.assertEqual(len(plan.alternatives), 1)
            self.assertGreaterEqual(plan.alternatives[0].predicted.step_seconds, plan.predicted.step_seconds)
            self.assertLessEqual(plan.bound, plan.predicted.step_seconds)
            simulated = kerf.simulate(plan=plan)
            ours, theirs = simulated.data, json.loads(command_in(folder, plan, "simulate", "--json"))
            self.assertEqual(ours, theirs)
            self.assertIn("Memory over time", simulated.report().html)
            self.assertTrue(simulated.timeline)
            self.assertTrue(kerf.verify(plan=plan).passed)
            again = kerf.plan(kerf.Model.from_config(CONFIG, global_batch=8), "dgx-a100", ranks=4, dtype="bf16", top=1, progress=False)
            self.assertEqual({**again.to_dict(), "job": None}, {**told, "job": None})
            self.assertEqual(kerf.simulate(plan=again).step_seconds, simulated.step_seconds)  # the plan knows its model in memory

    def test_pareto_and_explain(self):
        model = kerf.Model.from_config({**CONFIG, "n_layer": 2}, global_batch=4, sequence=128)
        front = kerf.pareto(model, "dgx-a100", ranks=2, dtype="bf16", budget=1, progress=False)
        self.assertGreaterEqual(len(front), 1)
        for one, next_one in zip(front, front[1:]):
            self.assertLessEqual(one.step_seconds, next_one.step_seconds)
        self.assertIn("GiB", str(front))
        plan = front[0].plan
        self.assertIn("in memory", plan.model.name)
        whole = kerf.plan(model, "dgx-a100", ranks=2, dtype="bf16", budget=1, top=0, progress=False)
        what_if = kerf.explain(whole, what_if="device.memory*2", progress=False)
        self.assertEqual(what_if.data["what_if"], ["device.memory*2"])
        self.assertLessEqual(what_if.data["step_seconds"], whole.predicted.step_seconds * (1 + 1e-9))
        other = kerf.plan(model, "dgx-a100", ranks=2, dtype="bf16", budget=1, top=0, constraints={"mesh": {"model": 2}}, progress=False)
        self.assertIn("->", str(kerf.compare(whole, other)))

    def test_placement_explanations(self):
        one, two = (kerf.plan(MLP, ranks=ranks, all_ranks=True, progress=False) for ranks in (1, 2))
        self.assertEqual(kerf.explain(two).data, two.to_dict()["report"])
        self.assertEqual(kerf.compare(one, two).data["step_seconds"], [one.predicted.step_seconds, two.predicted.step_seconds])
        self.assertTrue(kerf.explain(two, op="*").data)

    def test_layouts_of_parameters(self):
        model = os.path.join(ROOT, "examples", "gpt2", "model.onnx")
        plan = kerf.plan(model, ranks=2, constraints={"mesh": {"model": 2, "data": 1}}, progress=False)
        layouts = plan.layouts()
        fused = layouts["transformer.h.0.attn.c_attn.weight"]
        self.assertEqual([int(np.prod([fused.sizes[at] for at in fold])) for fold in fused.folds], list(fused.shape))
        self.assertTrue(any("model" in axes for one in layouts.values() for axes in one.axes))

    def test_constraints_are_kept(self):
        plan = kerf.plan(MLP, ranks=2, constraints=kerf.Plan({"mesh": {"data": 1}}) | {"mesh": {"model": 2}}, progress=False)
        self.assertEqual((plan.mesh["data"], plan.mesh["model"]), (1, 2))

    def test_progress_logging_and_the_end_of_a_search(self):
        model, calls = kerf.Model.from_config(LARGE, global_batch=1536), []
        with self.assertLogs("kerf", logging.INFO) as logs:
            plan = kerf.plan(model, "selene", ranks=512, dtype="bf16", budget=600, progress=lambda best, bound: calls.append((best, bound)) or best == 0)
        self.assertTrue(plan.interrupted and calls and logs.output)
        self.assertGreater(calls[-1][0], 0)

        def fail(best, bound):
            raise LookupError("of the progress function")

        with self.assertRaisesRegex(LookupError, "of the progress function"):
            kerf.plan(model, "selene", ranks=512, dtype="bf16", budget=600, progress=fail)

    def test_ctrl_c_gives_the_best_plan_so_far(self):
        seen = threading.Event()

        def press():
            seen.wait(600)
            os.kill(os.getpid(), signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        plan = kerf.plan(kerf.Model.from_config(LARGE, global_batch=1536), "selene", ranks=512, dtype="bf16", budget=600,
                         progress=lambda best, bound: best > 0 and seen.set() or True)
        presser.join()
        self.assertTrue(plan.interrupted)
        self.assertTrue(plan.predicted.fits)


def command_in(folder, plan, *arguments):
    path = os.path.join(folder, "plan.json")
    plan.save(path)
    return command(arguments[0], "--plan", path, *arguments[1:])


class Values(unittest.TestCase):
    def test_pickling_equality_and_copies(self):
        plan = kerf.plan(MLP, ranks=2, progress=False)
        model, cluster = kerf.Model.from_config(CONFIG, sequence=64), kerf.Cluster.load("dgx-a100")
        for value in (plan, model, cluster, kerf.AdamW(beta1=0.8), kerf.Precision("bf16"), plan.predicted):
            again = pickle.loads(pickle.dumps(value))
            self.assertEqual(again, value)
            self.assertEqual(hash(again), hash(value))
            self.assertEqual(copy.deepcopy(value), value)
            self.assertEqual(copy.copy(value), value)
        self.assertEqual(pickle.loads(pickle.dumps(plan)).sha256, plan.sha256)
        self.assertNotEqual(plan, kerf.plan(MLP, ranks=1, progress=False))
        self.assertNotEqual(model, kerf.Model.from_config(CONFIG, sequence=32))

    def test_files(self):
        plan, cluster = kerf.plan(MLP, ranks=2, progress=False), kerf.Cluster.here(2)
        with tempfile.TemporaryDirectory() as folder:
            plan.save(os.path.join(folder, "plan.json"))
            self.assertEqual(kerf.Plan.load(os.path.join(folder, "plan.json")), plan)
            cluster.save(os.path.join(folder, "cluster.json"))
            self.assertEqual(kerf.Cluster.load(os.path.join(folder, "cluster.json")), cluster)
            plan.report().save(os.path.join(folder, "report.html"))
            with open(os.path.join(folder, "report.html")) as file:
                self.assertIn("<html", file.read())
        self.assertEqual(cluster.ranks, 2)
        self.assertEqual(kerf.Cluster.load("dgx-a100").ranks, 128)
        self.assertIn("dgx-a100", kerf.Cluster.names())


class Errors(unittest.TestCase):
    def raises(self, error, pattern, call, *arguments, **keywords):
        with self.assertRaisesRegex(error, pattern) as caught:
            call(*arguments, **keywords)
        self.assertIsInstance(caught.exception, kerf.Error)
        return str(caught.exception)

    def test_messages_are_those_of_the_command_line(self):
        for message, call in {
            command("plan", "no.onnx", status=1): lambda: kerf.plan("no.onnx"),
            command("plan", MLP, "--cluster", "no.json", status=1): lambda: kerf.plan(MLP, "no.json"),
            command("plan", MLP, "--weights", "no.npz", status=1): lambda: kerf.plan(kerf.Model.load(MLP, weights="no.npz")),
            command("simulate", MLP, "--plan", "no.json", status=1): lambda: kerf.simulate(MLP, "no.json"),
            command("plan", MLP, "--dtype", "f8", "--search", "placement", status=1): lambda: kerf.plan(MLP, dtype="f8", search="placement"),
            command("plan", MLP, "--ranks", "5000", status=1): lambda: kerf.plan(MLP, ranks=5000),
            command("plan", MLP, "--momentum", "2", status=1): lambda: kerf.plan(MLP, optimizer=kerf.SGD(momentum=2)),
        }.items():
            with self.subTest(message), self.assertRaises(kerf.InputError) as caught:
                call()
            self.assertEqual(plain(str(caught.exception)), plain(message))

    def test_wrong_inputs(self):
        plan = kerf.plan(MLP, ranks=1, progress=False)
        for pattern, call in {
            r"^ranks=: '0' is not a whole number from 1 to 16777216$": lambda: kerf.plan(MLP, ranks=0),
            r"^optimizer= is 'adamm'; it has to be one of sgd, adam": lambda: kerf.plan(MLP, optimizer="adamm"),
            r"^memory=: '3furlongs' is not a number of bytes": lambda: kerf.plan(MLP, memory="3furlongs"),
            r"^loss_scale= is for dtype= bf16, f16 and f8; dtype= is f32": lambda: kerf.plan(MLP, dtype=kerf.Precision("f32", loss_scale="dynamic")),
            r"adamw has no setting 'momentum'": lambda: kerf.plan(MLP, optimizer=kerf.Optimizer("adamw", {"momentum": 0.5})),
            r"there is no setting 'momentun'": lambda: kerf.plan(MLP, optimizer=kerf.Optimizer("sgd", {"momentun": 0.5})),
            r"mode='stand-alone' uses one rank, but ranks= is 2": lambda: kerf.plan(MLP, ranks=2, mode="stand-alone"),
            r"trainer= is 'megatrn'; it has to be one of": lambda: kerf.plan(MLP, trainer="megatrn"),
            r"the plan": lambda: kerf.Plan({"meshh": {}}),
            r"cluster": lambda: kerf.Cluster({"name": 3}),
            r"the plan does not name its model; give the model": lambda: kerf.simulate(plan={"mesh": {"data": 2}}),
            r"the plan is a plan of search='placement', and what_if= applies": lambda: kerf.explain(plan, what_if="ranks*2"),
            r"no op's name matches 'zzz'": lambda: kerf.explain(plan, op="zzz"),
            r"threads=: '0' is not a whole number from 1 to 1024": lambda: kerf.Trainer(MLP, threads=0),
            r"^first_step=-1: the number of a step is 0 or more": lambda: kerf.Trainer(MLP, first_step=-1),
            r"on_nan= is 'panic'": lambda: kerf.Trainer(MLP, on_nan="panic"),
            r"weights: the model has no tensor 'zzz'": lambda: kerf.Trainer(MLP, weights={"zzz": np.zeros(1, np.float32)}),
            r"'zzz' is a list; it has to be an array": lambda: kerf.Trainer(MLP, weights={"zzz": [1.0]}),
            r"no such|does not exist|cannot|program.json": lambda: kerf.Package.load("no-such-folder"),
        }.items():
            with self.subTest(pattern):
                message = self.raises(kerf.InputError, pattern, call)
                self.assertNotRegex(message, r"--[a-z]|<[a-z-]+>")
                self.assertIsInstance(kerf.InputError(message), ValueError)

    def test_infeasible(self):
        message = self.raises(kerf.InfeasibleError, "(these changes make it fit|no remedy was found)", kerf.plan, MLP, memory=1000, progress=False)
        told = command("plan", MLP, "--memory", "1000", status=2)
        self.assertEqual(plain(message), plain(told))
        self.assertEqual(kerf.InfeasibleError.status, 2)

    def test_warnings(self):
        model = kerf.Model.from_config({**CONFIG, "n_layer": 1, "tie_word_embeddings": True}, sequence=16)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kerf.simulate(model, None, "cpu-4", ranks=1)
        self.assertTrue(all(issubclass(one.category, kerf.Warning) for one in caught))


def plain(message):
    """A message without the differences between options and keyword arguments."""
    import re

    message = re.sub(r"\b([a-z_]+)='?([a-zA-Z0-9.-]*)'?", lambda match: f"--{match[1].replace('_', '-')}" + (f" {match[2]}" if match[2] else ""), message)
    return message


class Running(unittest.TestCase):
    def test_losses_are_pytorchs(self):
        data = batches()
        trainer = kerf.Trainer(MLP, ranks=2, optimizer=kerf.SGD(momentum=0.9), lr=0.1, all_ranks=True)
        losses = [trainer.step({name: array[at] for name, array in data.items()}).loss for at in range(20)]
        np.testing.assert_allclose(losses, golden_sgd(), rtol=2e-5)
        self.assertEqual(trainer.next_step, 20)
        self.assertEqual([one.name for one in trainer.inputs], ["x", "labels"])
        self.assertLess(trainer.evaluate({name: array[:2] for name, array in data.items()}).loss, losses[0])

    def test_weights_go_in_and_out_and_checkpoints_continue(self):
        data = batches()
        trainer = kerf.Trainer(MLP, optimizer="adamw", lr=1e-3)
        start = {name: array.copy() for name, array in trainer.parameters().items()}
        first = trainer.step({name: array[0] for name, array in data.items()}).loss
        moved = trainer.parameters()
        name = next(name for name in start if not np.array_equal(start[name], moved[name]))
        self.assertFalse(moved[name].flags.writeable)
        with tempfile.TemporaryDirectory() as folder:
            trainer.save(folder)
            second = trainer.step(x=data["x"][1], labels=data["labels"][1]).loss
            trainer.load(folder)
            self.assertEqual(trainer.step(x=data["x"][1], labels=data["labels"][1]).loss, second)
            trainer.save_weights(os.path.join(folder, "trained.safetensors"))
        trainer.assign(start)
        self.assertEqual(kerf.Trainer(MLP, weights=start).step(x=data["x"][0], labels=data["labels"][0]).loss, first)
        with self.assertRaisesRegex(kerf.InputError, r"batch: the model's input 'labels' is missing"):
            trainer.step(x=data["x"][0])
        trainer.cancel()
        self.assertIn("cancelled", trainer.ended)
        with self.assertRaisesRegex(kerf.Error, "cancelled"):
            trainer.step(x=data["x"][0], labels=data["labels"][0])

    def test_learning_rates_and_states(self):
        """A trainer that starts from weights, states and step of another continues it; a factor of 0 trains nothing."""
        settings, all_batches = {"optimizer": "adamw", "dtype": "f64"}, batches()
        batch = [{name: array[at] for name, array in all_batches.items()} for at in range(4)]
        whole = kerf.Trainer(MLP, lr=1e-2, **settings)
        for one in batch[:2]:
            whole.step(one)
        kept = whole.parameters(states=True)
        self.assertIn("exp_avg_sq/head.weight", kept)
        continued = kerf.Trainer(MLP, lr=2e-2, weights=kept, first_step=2, **settings)
        continued.set_learning_rate_factor(0.5)
        for one in batch[2:]:
            self.assertEqual(continued.step(one), dataclasses.replace(whole.step(one), seconds=mock.ANY))
        before = continued.parameters()
        continued.set_learning_rate_factor(0)
        self.assertEqual(continued.step(batch[0]).learning_rate, 0)
        np.testing.assert_array_equal(continued.parameters()["head.weight"], before["head.weight"])
        with self.assertRaisesRegex(kerf.InputError, "factor -1.* of the learning rate"):
            continued.set_learning_rate_factor(-1)

    def test_batches_of_other_layouts_and_types(self):
        data = batches()
        trainer = kerf.Trainer(MLP)
        x, labels = data["x"][0].copy(), data["labels"][0].copy()
        loss = trainer.step(x=x, labels=labels).loss
        strided = np.asfortranarray(x)
        self.assertEqual(kerf.Trainer(MLP).step(x=strided, labels=labels.astype(np.int32)).loss, loss)

    def test_package(self):
        data = batches()
        with tempfile.TemporaryDirectory() as folder:
            to = os.path.join(folder, "package")
            package = kerf.compile(MLP, to=to, ranks=2, optimizer=kerf.SGD(momentum=0.9), all_ranks=True)
            result = kerf.Package.load(to).run(data, lr=0.1)
            np.testing.assert_allclose(result.losses, golden_sgd(), rtol=2e-5)
            self.assertEqual(package.plan.ranks, 2)
            log = os.path.join(folder, "log.jsonl")
            command("run", to, "--data", BATCHES, "--lr", "0.1", "--log", log)
            with open(log) as file:
                self.assertEqual([json.loads(line)["loss"] for line in file if '"loss"' in line], result.losses)


def golden_sgd():
    losses = golden("sgd")
    return losses["float32"] if isinstance(losses, dict) else losses


class Process(unittest.TestCase):
    def test_two_threads(self):
        alone = [kerf.plan(MLP, ranks=ranks, all_ranks=True, progress=False) for ranks in (1, 2)]
        found = [None, None]

        def work(at):
            found[at] = kerf.plan(MLP, ranks=at + 1, all_ranks=True, progress=False)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, alone)

    def test_the_gil_is_released(self):
        done, ticks = threading.Event(), []

        def count():
            while not done.wait(0.001):
                ticks.append(1)

        counter = threading.Thread(target=count)
        counter.start()
        kerf.plan(MLP, ranks=2, progress=False)
        done.set()
        counter.join()
        self.assertGreater(len(ticks), 3)

    def test_no_leaks(self):
        times = 1000 if ALL else 100

        def once():
            kerf.simulate(MLP, {"mesh": {"data": 1}})
            for wrong in (lambda: kerf.plan("no.onnx"), lambda: kerf.Plan({"x": 1})):
                try:
                    wrong()
                except kerf.Error:
                    pass

        for _ in range(20):
            once()
        gc.collect()
        before = resident()
        for _ in range(times):
            once()
        gc.collect()
        # The address sanitizer keeps what is given back.
        self.assertLess(resident() - before, 1 << (40 if "libasan" in os.environ.get("LD_PRELOAD", "") else 20))


if __name__ == "__main__":
    unittest.main()
