# SPDX-License-Identifier: Apache-2.0
"""The plans of test_pipelines.py on the exports of other families, as far as each takes them, give PyTorch's and JAX's losses.

By default a few plans of each model; `--all`: every one. Models that KERF_SHARED has not are skipped.
"""
import itertools
import json
import math
import os
import sys
import unittest
from dataclasses import dataclass, field

ALL = "--all" in sys.argv  # test_pipelines takes it off

from support import SHARED, KerfTest, file_of, losses_of, main, optimizer_flags  # noqa: E402
from test_pipelines import PLANS, PLANS_AGREE  # noqa: E402

FEW = ["microbatches, model 2", "zero 3", "3-D, zero-bubble, zero 2, sequence parallel", "cut in a layer", "cut in a layer, 3-D, recompute, zero 3",
       "meshes of stages, interleaved"]
TOLERANCE = 1e-6  # relative, float64 losses
JAX = os.path.join(SHARED, "models", "jax-transformer")


@dataclass
class Model:
    file: str
    attends: bool = False       # over a sequence that 4 divides
    has_layers: bool = True     # repeated ones, that stages may be cut between
    whole_groups: bool = False  # it takes no microbatches
    names: dict = field(default_factory=dict)  # what it calls the ops that the plans name, by a part of the pattern
    cuts: list = None           # ops that stages end at, where it has no such names
    more: list = field(default_factory=list)


def shared(name, file="model.onnx"):
    return os.path.join(SHARED, "models", name, file)


MODELS = {
    "bert": Model(shared("bert"), attends=True, names={"attn": "attention", "mlp": "intermediate", "lm_head": "cls.predictions.transform"}),
    "vit": Model(shared("vit"), names={"attn": "attention", "lm_head": "vit.layernorm"}),
    "mixtral": Model(shared("mixtral"), attends=True, whole_groups=True),  # its loss of the experts' balance
    "resnet": Model(shared("resnet"), cuts=["*stages.0.layers.0.layer.0.*", "*stages.1.layers.0.*", "*stages.2.layers.0.layer.1.convolution*"]),
    "cnn": Model(shared("cnn"), has_layers=False, cuts=["norm1/add", "norm2*", "dilated/add"]),
    "mlp": Model(file_of("mlp"), has_layers=False, cuts=["up/add", "norm*", "down/add"]),
    "jax": Model(shared("jax-transformer", "loss.mlir"), attends=True, cuts=["layer.0/rms_norm#0", "layer.0/attention", "layer.1/gelu"],
                 more=["--weights", os.path.join(JAX, "weights.npz")]),
    "jax_scan": Model(shared("jax-transformer", "loss_scan.mlir"), attends=True, cuts=["loop.0.*rms_norm#0", "loop.0.*attention", "loop.1.*gelu"],
                      more=["--weights", os.path.join(JAX, "weights.npz")]),
}


def with_cuts(given, cuts):
    """Its stages end at these ops; meshes of stages stay."""
    parts = given["mesh"].get("stage", 1) * given.get("schedule", {}).get("chunks", 1)
    ends = [{"until": cut} for cut in cuts[:parts - 1]] + [{}]
    entries = itertools.zip_longest(ends, given.get("stages", []), fillvalue={})
    return {**given, "stages": [{**end, **({"mesh": entry["mesh"]} if "mesh" in entry else {})} for end, entry in entries]}


def microbatch_of(given, batch, whole_groups):
    """The largest that is no larger than the plan's and that the batch has on every stage; None: there is none."""
    groups = [mesh.get("data", 1) for mesh in [given["mesh"], *(entry["mesh"] for entry in given.get("stages", []) if "mesh" in entry)]]
    first, unit = groups[1] if len(groups) > 1 else groups[0], math.lcm(*groups)
    fitting = [samples for samples in range(1, batch + 1) if batch % (samples * first) == 0 and samples * first % unit == 0]
    wanted = batch if whole_groups else given.get("microbatch", batch)
    return max((samples for samples in fitting if samples <= wanted), default=None)


def fitted(given, model, batch):
    """The plan with the model's names and sizes; None where it has nothing for it to cut."""
    text = json.dumps(given)
    for name, its in model.names.items():
        text = text.replace(name, its)
    given = json.loads(text)
    of_layers = isinstance(given.get("recompute"), dict)
    if ('"context"' in text.replace('"context": 1', "") and not model.attends) or ("ops" in given and model.cuts) or (of_layers and not model.has_layers):
        return None
    if model.cuts and given["mesh"].get("stage", 1) > 1 and ("until" in text or not model.has_layers):
        given = with_cuts(given, model.cuts)
    samples = microbatch_of(given, batch, model.whole_groups)
    return samples and {**given, "microbatch": samples}


class PipelinesOfModels(KerfTest):
    def check(self, model):
        folder = os.path.dirname(model.file)
        with open(os.path.join(folder, "golden.json")) as file:
            golden = json.load(file)
        batch, done = next(iter(golden["inputs"].values()))["shape"][0], 0
        for optimizer in ["sgd", "adamw"] if ALL else ["adamw"]:
            step, run = optimizer_flags(golden, optimizer)
            expected, first = golden["losses"][optimizer]["float64"], None
            for name in PLANS if ALL else FEW:
                plan = fitted(PLANS[name], model, batch)
                if plan is None:
                    continue
                with self.subTest(optimizer=optimizer, plan=name, fitted=plan):
                    self.succeed("train", model.file, "--data", os.path.join(folder, "batches.npz"), "--steps", golden["steps"], "--dtype", "f64", "--plan",
                                 self.write("plan.json", plan), "--log", self.path("log"), *step, *run, *model.more)
                    losses = losses_of(self.path("log"))
                    self.close(losses, expected, TOLERANCE, name)
                    first = first or losses
                    self.close(losses, first, PLANS_AGREE, f"{name}, and the first plan")
                    done += 1
        self.assertGreater(done, 1)


def add_case(name, model):
    @unittest.skipUnless(os.path.isfile(model.file), f"no {model.file}")
    def test(self):
        self.check(model)
    setattr(PipelinesOfModels, f"test_{name}", test)


for name, model in MODELS.items():
    add_case(name, model)

if __name__ == "__main__":
    main()
