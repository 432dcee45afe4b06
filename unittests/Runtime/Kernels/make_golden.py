#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden.json: kernel inputs and PyTorch's results for them in float64 (made with PyTorch 2.13 on a CPU).

Run: python3 make_golden.py > golden.json
Each case has an op, its attributes, operands and results, each as [dtype, shape, values]; the test runs it in float64 and float32.
"""
import json
import math
import torch
import torch.nn.functional as F

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)
cases = []


def tensor(x):
    kind = {torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}[x.dtype]
    values = x.detach().reshape(-1).tolist()
    return [kind, list(x.shape), [round(v, 15) if isinstance(v, float) else v for v in values]]


def rand(*shape):
    """Values of few digits, exact in float32 too, so that both widths start from the same numbers."""
    return (torch.randn(*shape) * 256).round() / 256


def case(op, attrs, operands, results):
    cases.append({"op": op, "attrs": attrs, "operands": [tensor(x) for x in operands], "results": [tensor(x) for x in results]})


def leaf(*shape):
    return rand(*shape).requires_grad_()


def softmax():
    x, dy = leaf(3, 7), rand(3, 7)
    y = F.softmax(x, 1)
    case("softmax", {"dimension": 1}, [x], [y])
    case("softmax_backward", {"dimension": 1}, [y, dy], torch.autograd.grad(y, x, dy))


def gelu(approximate):
    x, dy = leaf(4, 5), rand(4, 5)
    y = F.gelu(x, approximate="tanh" if approximate else "none")
    attrs = {"approximate": True} if approximate else {}
    case("gelu", attrs, [x], [y])
    case("gelu_backward", attrs, [x, dy], torch.autograd.grad(y, x, dy))


def layer_norm():
    x, w, b, dy = leaf(2, 3, 8), leaf(8), leaf(8), rand(2, 3, 8)
    y, mean, rstd = torch.native_layer_norm(x, (8,), w, b, 1e-5)
    mean, rstd = mean.reshape(2, 3), rstd.reshape(2, 3)
    case("layer_norm", {"epsilon": 1e-5}, [x, w, b], [y, mean, rstd])
    case("layer_norm_backward", {}, [x, w, mean, rstd, dy], torch.autograd.grad(y, (x, w, b), dy))


def rms_norm():
    x, w, dy = leaf(2, 3, 8), leaf(8), rand(2, 3, 8)
    y = F.rms_norm(x, (8,), w, 1e-6)
    rstd = torch.rsqrt((x * x).mean(-1) + 1e-6)
    case("rms_norm", {"epsilon": 1e-6}, [x, w], [y, rstd])
    case("rms_norm_backward", {}, [x, w, rstd, dy], torch.autograd.grad(y, (x, w), dy))


def cross_entropy():
    x, labels, dy = leaf(6, 9), torch.tensor([0, 8, -100, 3, 3, 5]), rand(6)
    nll = F.cross_entropy(x, labels, ignore_index=-100, reduction="none")
    lse = torch.logsumexp(x, 1)
    case("cross_entropy", {"ignore_index": -100}, [x, labels], [nll, lse])
    case("cross_entropy_backward", {"ignore_index": -100}, [x, labels, lse, dy], torch.autograd.grad(nll, x, dy))


def attention(causal, mask):
    b, s, h, g, d = 1, 4, 4, 2, 4
    q, k, v, dy = leaf(b, s, h, d), leaf(b, s, g, d), leaf(b, s, g, d), rand(b, s, h, d)
    scale = 1 / math.sqrt(d)
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    y = F.scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=True).transpose(1, 2)
    scores = scale * heads[0] @ heads[1].repeat_interleave(h // g, 1).transpose(2, 3)
    if causal:
        scores = scores.masked_fill(~torch.ones(s, s, dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    lse = torch.logsumexp(scores, 3)
    attrs = {"scale": scale, **({"causal": True} if causal else {})}
    masks = [] if mask is None else [mask]
    case("attention", attrs, [q, k, v, *masks], [y, lse])
    case("attention_backward", attrs, [q, k, v, *masks, y, lse, dy], torch.autograd.grad(y, (q, k, v), dy))


softmax()
gelu(False)
gelu(True)
layer_norm()
rms_norm()
cross_entropy()
attention(False, None)
attention(True, None)
attention(False, rand(1, 1, 4, 4))
attention(False, torch.rand(1, 4, 4, 4) < 0.7)
print("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]")
