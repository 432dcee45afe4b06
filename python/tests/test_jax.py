#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX under plans of Kerf on 8 devices of the CPU: losses are those of one device, and XLA moves about the bytes of the plan.
KERF_ALL=1 runs all models on all meshes. The tests are skipped where JAX is missing."""
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

import jax_devices

WHY = ""
try:
    import jax
    import jax_models
    import optax  # noqa: F401

    import kerf.jax
except ImportError as error:
    WHY = f"a package of this test is not installed: {error}"
WHY = jax_devices.missing() or WHY

import json

import numpy as np

import kerf
from kerf import _core

ALL = bool(os.environ.get("KERF_ALL"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
CHEAP = (("mlp", 4, 2), ("remat", 4, 2), ("scan_remat", 2, 4))
MOST = 1.1  # times the bytes of the plan that XLA may move
MORE = {"gpt_only_loss": 2.0}  # the plan of a loss does not name its gradients
STEPS = 4
BYTES = {"f64": 8, "f32": 4, "s64": 8, "s32": 4, "u32": 4, "pred": 1, "bf16": 2}


def cluster():
    """Returns 8 slow devices with fast links, on which plans cut small models."""
    return kerf.Cluster({"name": "8 slow devices",
                         "device": {"kind": "cpu", "name": "cpu", "memory_bytes": 1 << 30, "memory_bandwidth": 1e9,
                                    "peak_flops": {"f64": 1e9, "f32": 1e9}},
                         "levels": [{"name": "link", "size": 8, "bandwidth": 1e11, "latency": 1e-9}]})


def received(kind, size, ranks):
    """Returns the bytes that a rank receives. `size` are the bytes of the larger side of the collective."""
    return {"all_reduce": 2, "collective_permute": 2}.get(kind, 1) * size * (ranks - 1) / ranks


def plan_bytes(model, plan):
    """Returns the bytes that a rank receives in a step, by kinds of collectives, as the compiled plan has them."""
    with tempfile.TemporaryDirectory() as folder:
        answer = json.loads(_core.compile(model.source(), plan.text, json.dumps(model.settings), None, folder, False))
    found = {}
    for one in answer["report"]["collectives"]:
        ranks = math.prod(plan.mesh[axis] for axis in plan.mesh if re.search(rf"\b{axis}\b", one["axes"]))
        size = one["bytes"] * (ranks if one["kind"] == "all_gather" else 1)
        found[one["kind"]] = found.get(one["kind"], 0) + one["calls"] * received(one["kind"], size, ranks)
    return found


def group_size(line):
    """Returns the number of ranks of a process group, in one of the forms {{0,1},{2,3}}, [4,2]<=[8] and mesh['a'=4,'b'=2] {'b'}."""
    mesh = re.search(r"replica_groups=mesh\[(.*?)\].*? \{(.*?)\}", line)
    if mesh:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(part or sizes[axis]) for axis, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", mesh[2]))
    groups = re.search(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\])", line)
    if groups:
        return len(groups[1].split(",")) if groups[1] else int(groups[2])
    if "source_target_pairs=" in line:
        return 2
    raise ValueError(f"no process groups in {line[:400]}")


def times_run(text):
    """Returns the lines of an HLO module, each with the number of times that it runs in one call."""
    bodies, name, entry = {}, "", ""
    for line in text.splitlines():
        header = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$", line)
        if header:
            name = header[2]
            entry = name if header[1] else entry
        bodies.setdefault(name, []).append(line)
    lines = []

    def run(name, times):
        for line in bodies.get(name, []):
            lines.append((line, times))
            rounds = re.search(r'"known_trip_count":\{"n":"(\d+)"', line) if " while(" in line else None
            if " while(" in line and not rounds:
                raise ValueError(f"a loop with an unknown number of rounds: {line[:400]}")
            for called in re.findall(r"(?:body|calls)=%?([\w.\-]+)", line):
                run(called, times * (int(rounds[1]) if rounds else 1))

    run(entry, 1)
    return lines


def xla_bytes(text):
    """Returns the bytes that a rank receives in a step, by kinds of collectives, from the text of an HLO module."""
    found = {}
    for line, times in times_run(text):
        match = re.search(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\((.*)$", line)
        if not match:
            continue
        kind = match[2].replace("-", "_")
        ranks = group_size(line)
        size = sum(BYTES[dtype] * math.prod(int(n) for n in dims.split(",") if n) for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", match[1]))
        size *= ranks if kind == "reduce_scatter" else 1
        found[kind] = found.get(kind, 0) + times * received(kind, size, ranks)
    return found


def largest(a, b):
    """Returns the largest difference of two trees, relative to the largest element of each array."""
    return max((float(np.max(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64))) / max(1e-30, np.max(np.abs(np.asarray(y, np.float64)))))
                for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)) if np.size(y)), default=0.0)


@unittest.skipIf(WHY, WHY)
class Jax(unittest.TestCase):
    def planned(self, name, dtype, data, model):
        fn, args, updates = jax_models.MODELS[name](dtype)
        captured = kerf.jax.capture(fn, *args, updates=updates)
        constraints = {"mesh": {"data": data, "model": model}}
        if not updates:
            constraints = {"mesh": {"stage": 1, "context": 1, "expert": 1, "data": data, "model": model}, "microbatch": 16 // data, "recompute": "none",
                           "optimizer_sharding": 0}
        plan = kerf.plan(captured, cluster(), ranks=data * model, dtype="f64" if dtype == np.float64 else "f32", constraints=constraints,
                         progress=False)
        return fn, args, updates, captured, plan

    def check(self, name, dtype, data, model, tolerance):
        fn, args, updates, captured, plan = self.planned(name, dtype, data, model)
        mesh = kerf.jax.mesh(plan)
        applied = kerf.jax.apply(fn, plan, mesh)
        if not updates:
            fn, applied_fn = jax.value_and_grad(fn), jax.jit(jax.value_and_grad(applied))
        else:
            applied_fn = applied
        placed = jax.device_put(args, kerf.jax.shardings(plan, mesh, *args))
        alone, ours = args, placed
        single = jax.jit(fn)
        for step in range(STEPS if updates else 1):
            expected, got = single(*alone), applied_fn(*ours)
            self.assertLess(largest(got, expected), tolerance, f"{name}, step {step}")
            if updates:
                alone, ours = (*expected[:len(updates)], *args[len(updates):]), (*got[:len(updates)], *placed[len(updates):])
        theirs, mine = xla_bytes(applied_fn.lower(*placed).compile().as_text()), plan_bytes(captured, plan)
        ratio = sum(theirs.values()) / max(1, sum(mine.values()))
        cut = sum(any(spec.spec) for spec in jax.tree.leaves(kerf.jax.shardings(plan, mesh, *args)))
        print(f"{name} {np.dtype(dtype).name} data {data} x model {model}: {cut} arrays cut; a rank receives "
              f"{sum(theirs.values()):.0f} bytes by XLA, {sum(mine.values()):.0f} by the plan: {ratio:.3f}\n   XLA {theirs}\n"
              f"   plan {mine}\n   {len(applied.notes)} notes", file=sys.stderr)
        return ratio, cut

    def test_cheap_models_have_the_numbers_of_one_device(self):
        with jax.enable_x64(True):
            for name, data, model in CHEAP:
                ratio, cut = self.check(name, np.float64, data, model, 1e-10)
                self.assertGreater(cut, 0)
                self.assertLessEqual(ratio, MOST, name)

    def test_a_wrong_scale_of_the_gradient_is_seen(self):
        """The comparison with one device fails where gradients are twice as large."""
        fn, args, _ = jax_models.mlp(np.float32)
        wrong, _, _ = jax_models.mlp(np.float32, rate=0.2)
        self.assertGreater(largest(jax.jit(wrong)(*args), jax.jit(fn)(*args)), 1e-6)

    def test_a_planned_step_has_no_derivative(self):
        fn, args, _, _, plan = self.planned("mlp", np.float32, 4, 2)
        applied = kerf.jax.apply(fn, plan)
        with self.assertRaisesRegex(kerf.InputError, "differentiate the loss inside of the step"):
            jax.grad(lambda params: applied(params, *args[1:])[2])(args[0])

    def test_exported_text_is_compiled_by_xla(self):
        """The only test that uses private names of jaxlib, because JAX has no public way to compile a text."""
        try:
            from jax.extend.backend import get_backend
            from jaxlib import _jax, xla_client
        except ImportError as error:
            self.skipTest(f"this jaxlib has other private names: {error}")
        fn, args, _, captured, plan = self.planned("mlp", np.float32, 2, 4)
        with tempfile.TemporaryDirectory() as folder:
            paths = {name: os.path.join(folder, name) for name in ("step.mlir", "plan.json", "signature.json", "planned.mlir")}
            with open(paths["step.mlir"], "w") as file:
                file.write(captured.text)
            with open(paths["signature.json"], "w") as file:
                json.dump({"step.mlir": next(iter(json.loads(captured.signature).values()))}, file)
            plan.save(paths["plan.json"])
            done = subprocess.run([KERF, "export", paths["step.mlir"], "--plan", paths["plan.json"], "--to", "stablehlo", "-o", paths["planned.mlir"]],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(paths["planned.mlir"]) as file:
                text = file.read()
        client, options = get_backend("cpu"), xla_client.CompileOptions()
        options.num_replicas, options.num_partitions = 1, 8
        build = options.executable_build_options
        build.use_spmd_partitioning = build.use_shardy_partitioner = True
        build.num_replicas, build.num_partitions = 1, 8
        build.device_assignment = xla_client.DeviceAssignment.create(np.arange(8).reshape(1, 8))
        build.allow_spmd_sharding_propagation_to_output = [True]
        executable = client.compile_and_load(text, _jax.DeviceList(tuple(client.local_devices()[:8])), options)
        mesh = kerf.jax.mesh(plan)
        placed = jax.tree.leaves(jax.device_put(args, kerf.jax.shardings(plan, mesh, *args)))
        loss = float(executable.execute_sharded(placed).disassemble_into_single_device_arrays()[-1][0])
        self.assertAlmostEqual(loss, float(fn(*args)[-1]), delta=1e-6 * abs(loss))
        # XLA's own partitioner has no reduce-scatter on CPUs: it sums with an all-reduce, which moves twice the bytes.
        theirs, mine = xla_bytes(executable.hlo_modules()[0].to_string()), plan_bytes(captured, plan)
        comparable = sum(size * (2 if kind == "reduce_scatter" else 1) for kind, size in mine.items())
        print(f"exported mlp: {sum(theirs.values()):.0f} bytes by XLA, {comparable:.0f} by the plan", file=sys.stderr)
        self.assertLess(sum(theirs.values()), 1.1 * comparable)

    def test_wrong_input_is_refused_by_name(self):
        def loss(params, x):
            return ((x @ params["w"]) ** 2).mean()

        def step(params, momentum, x):
            return params, momentum, loss(params, x)

        params, x = {"w": np.ones((16, 16), np.float32)}, np.ones((8, 16), np.float32)
        for message, call in (
                ("params= names 'w', which is no argument", lambda: kerf.jax.capture(loss, params, x, params="w")),
                ("donates 'params', but none of its 1 results", lambda: kerf.jax.capture(loss, params, x, donate="params")),
                ("2 of its results could replace it: 0, 1", lambda: kerf.jax.capture(step, params, params, x, donate="params")),
                ("would replace both 'params' and 'momentum'",
                 lambda: kerf.jax.capture(step, params, params, x, updates={"params": 0, "momentum": 0}))):
            with self.assertRaisesRegex(kerf.InputError, message):
                call()
        model = kerf.jax.capture(loss, params, x)
        frame = {"mesh": {"stage": 1, "data": 2, "model": 1}}
        plan = kerf.plan(model, cluster(), ranks=2, constraints={**frame, "microbatch": 4}, progress=False)
        mesh = kerf.jax.mesh(plan)
        with self.assertRaisesRegex(kerf.InputError, r"'x' has the shape \(4, 16\), but \(8, 16\) was planned"):
            kerf.jax.shardings(plan, mesh, params, x[:4])
        with self.assertRaisesRegex(kerf.InputError, "is not the function that was captured"):
            kerf.jax.apply(lambda params, x: (x @ params["w"]).sum(), plan, mesh)(params, x)
        with self.assertRaisesRegex(kerf.InputError, "the mesh has the axes {'data': 8}, but the plan has {'data': 2}"):
            kerf.jax.apply(loss, plan, jax.sharding.Mesh(np.array(jax.devices()), ("data",)))
        small = kerf.plan(model, cluster(), ranks=2, constraints={**frame, "microbatch": 2}, progress=False)
        with self.assertRaisesRegex(kerf.InputError, "2 microbatches"):
            kerf.jax.shardings(small, mesh, params, x)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs all models")
    def test_all_models(self):
        for name in jax_models.MODELS:
            for data, model in ((4, 2), (2, 4), (8, 1), (1, 8)):
                with self.subTest(name, data=data, model=model), jax.enable_x64(True):
                    ratio, _ = self.check(name, np.float64, data, model, 1e-10)
                    self.assertLessEqual(ratio, MORE.get(name, MOST))
            with self.subTest(name, dtype="float32"):
                ratio, _ = self.check(name, np.float32, 2, 4, 1e-4)
                self.assertLessEqual(ratio, MORE.get(name, MOST))


if __name__ == "__main__":
    unittest.main()
