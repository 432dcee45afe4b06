#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes optimizers/: a model with parameters of one to four dimensions, its batches, and what 20 steps of each optimizer make of it in
float64.

Needs torch 2.9 or later and onnx:  python make_optimizers.py

The references are torch.optim's classes where PyTorch has the optimizer. Its Muon orthogonalizes in bfloat16: here the same code runs in
float64. Lion is the authors' program (github.com/google/automl, lion) and LAMB algorithm 2 of You et al. 2020, each as a class of torch.optim.
"""
import json
import math
import os

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers")
STEPS, SAMPLES, WIDTH = 20, 8, 12
SHAPES = {"tall": (WIDTH, 7), "wide": (7, 10), "kernel": (5, 2, 3, 4), "stack": (10, 2, 3), "bias": (10,), "scale": (1,)}


def initial():
    random = numpy.random.default_rng(1)
    return {name: random.normal(0, 0.6, shape).astype("float32") for name, shape in SHAPES.items()}


def batches():
    random = numpy.random.default_rng(2)
    return {"x": random.normal(0, 1, (STEPS, SAMPLES, WIDTH)).astype("float32"), "y": random.normal(0, 1, (STEPS, SAMPLES, 5, 4)).astype("float32")}


def loss_of(p, x, y):
    """tanh(x tall) wide + bias, then by `stack` and `kernel` to a matrix for each sample."""
    hidden = torch.tanh(x @ p["tall"]) @ p["wide"] + p["bias"]
    hidden = torch.tanh(hidden @ p["stack"].reshape(10, 6)) * p["scale"]
    made = hidden @ p["kernel"].permute(1, 2, 0, 3).reshape(6, 20)
    return ((made - y.reshape(SAMPLES, 20)) ** 2).mean()


def model():
    """loss_of as ONNX."""
    node, numbers = helper.make_node, lambda name, values: numpy_helper.from_array(numpy.array(values, "int64"), name)
    nodes = [node("MatMul", ["x", "tall"], ["h0"]), node("Tanh", ["h0"], ["h1"]), node("MatMul", ["h1", "wide"], ["h2"]),
             node("Add", ["h2", "bias"], ["h3"]), node("Reshape", ["stack", "to_stack"], ["s"]), node("MatMul", ["h3", "s"], ["h4"]),
             node("Tanh", ["h4"], ["h5"]), node("Mul", ["h5", "scale"], ["h6"]), node("Transpose", ["kernel"], ["k0"], perm=[1, 2, 0, 3]),
             node("Reshape", ["k0", "to_kernel"], ["k1"]), node("MatMul", ["h6", "k1"], ["made"]), node("Reshape", ["y", "to_y"], ["wanted"]),
             node("Sub", ["made", "wanted"], ["off"]), node("Mul", ["off", "off"], ["square"]), node("ReduceMean", ["square"], ["loss"], keepdims=0)]
    weights = [numpy_helper.from_array(array, name) for name, array in initial().items()]
    shapes = [numbers("to_stack", [10, 6]), numbers("to_kernel", [6, 20]), numbers("to_y", [SAMPLES, 20])]
    float_input = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "optimizers", [float_input("x", [SAMPLES, WIDTH]), float_input("y", [SAMPLES, 5, 4])],
                              [float_input("loss", [])], weights + shapes)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(mean * beta1 + p.grad * (1 - beta1)), alpha=-group["lr"])
                mean.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                state["m"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["v"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                m, v = state["m"] / (1 - beta1 ** state["step"]), state["v"] / (1 - beta2 ** state["step"])
                r = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                norm, step = p.norm().item(), r.norm().item()
                p.add_(r, alpha=-group["lr"] * (norm / step if norm > 0 and step > 0 else 1.0))


class Muon:
    """torch.optim.Muon of the matrices and AdamW of the others, in float64."""

    def __init__(self, p, lr, **settings):
        matrices = [one for one in p if one.ndim == 2]
        self.both = [torch.optim.Muon(matrices, lr=lr, **settings),
                     torch.optim.AdamW([one for one in p if one.ndim != 2], lr=lr, weight_decay=settings.get("weight_decay", 0.01), foreach=False)]

    def zero_grad(self):
        for one in self.both:
            one.zero_grad()

    def step(self):
        narrow, torch.Tensor.bfloat16 = torch.Tensor.bfloat16, lambda tensor: tensor.double().clone()
        for one in self.both:
            one.step()
        torch.Tensor.bfloat16 = narrow


# name -> (options of kerf train, what makes the reference)
RUNS = {
    "sgd": ([], lambda p: torch.optim.SGD(p, lr=0.1, foreach=False)),
    "sgd, momentum": (["--momentum", 0.9, "--weight-decay", 0.05], lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05, foreach=False)),
    "sgd, nesterov": (["--momentum", 0.8, "--nesterov", "--weight-decay", 0.05],
                      lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.05, foreach=False)),
    "adam": (["--weight-decay", 0.1, "--beta2", 0.95], lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, betas=(0.9, 0.95), foreach=False)),
    "adamw": ([], lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False)),
    "adagrad": (["--weight-decay", 0.02], lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.02, foreach=False)),
    "lion": (["--weight-decay", 0.1], lambda p: Lion(p, lr=0.1, weight_decay=0.1)),
    "lamb": (["--weight-decay", 0.1], lambda p: Lamb(p, lr=0.1, weight_decay=0.1)),
    "adafactor": (["--weight-decay", 0.1], lambda p: torch.optim.Adafactor(p, lr=0.1, weight_decay=0.1, eps=(2.0 ** -23, 1e-3), foreach=False)),
    "adafactor, other settings": (["--beta2-decay", -0.5, "--update-threshold", 1.1, "--eps", 1e-3, "--eps2", 0.5],
                                  lambda p: torch.optim.Adafactor(p, lr=0.1, beta2_decay=-0.5, d=1.1, eps=(1e-3, 0.5), foreach=False)),
    "muon": (["--weight-decay", 0.1], lambda p: Muon(p, lr=0.1, weight_decay=0.1)),
    "muon, other settings": (["--no-nesterov", "--momentum", 0.7, "--ns-steps", 3, "--match-rms", "--weight-decay", 0],
                             lambda p: Muon(p, lr=0.1, weight_decay=0.0, nesterov=False, momentum=0.7, ns_steps=3, adjust_lr_fn="match_rms_adamw")),
}


def train(make):
    p = {name: torch.nn.Parameter(torch.tensor(array.astype("float64"))) for name, array in initial().items()}
    optimizer, data, losses = make(list(p.values())), batches(), []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(p, *(torch.tensor(data[name][step].astype("float64")) for name in ("x", "y")))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "weights": {name: one.detach().reshape(-1).tolist() for name, one in p.items()}}


os.makedirs(FOLDER, exist_ok=True)
onnx.save(model(), os.path.join(FOLDER, "model.onnx"))
numpy.savez(os.path.join(FOLDER, "batches.npz"), **batches())
runs = {name: {"options": options, **train(make)} for name, (options, make) in RUNS.items()}
for name, run in runs.items():
    print(f"{name:28} {run['losses'][0]:.6f} {run['losses'][-1]:.6f}")
    assert all(math.isfinite(loss) for loss in run["losses"])
with open(os.path.join(FOLDER, "golden.json"), "w", encoding="utf-8") as file:
    json.dump({"made_with": {"torch": torch.__version__}, "lr": 0.1, "runs": runs}, file)
    file.write("\n")
