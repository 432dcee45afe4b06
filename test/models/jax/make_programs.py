#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small JAX programs of many habits, as StableHLO text with JAX's own losses beside them.

    python3 -m venv jax && jax/bin/pip install jax==0.10.2 && jax/bin/python make_programs.py

Of the programs named, else of all. Each folder has the text (loss.mlir: a loss function; step.mlir: a whole train step), signature.json, weights.npz, batches.npz and
golden.json: losses of five steps in float32 and in float64, in which casts to narrower types do nothing, as in Kerf.
"""
import json
import os
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # compiled once, run five times

import jax
import jax.numpy as jnp
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, LR = 5, 0.1
rng = None


def normal(*shape, scale=0.3):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def rotary(x):  # [batch, sequence, heads, width]
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * (1.0 / 100.0 ** (jnp.arange(half) / half))
    sine, cosine = jnp.sin(angle)[:, None, :].astype(x.dtype), jnp.cos(angle)[:, None, :].astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


def attention(x, p, heads=2, repeat=1):
    b, s, d = x.shape
    q = rotary((x @ p["q"]).reshape(b, s, heads, -1))
    k = rotary((x @ p["k"]).reshape(b, s, heads // repeat, -1))
    v = (x @ p["v"]).reshape(b, s, heads // repeat, -1)
    k, v = jnp.repeat(k, repeat, axis=2), jnp.repeat(v, repeat, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(np.float32)
    scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, jnp.finfo(jnp.float32).min)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v).reshape(b, s, -1) @ p["o"]


def block(x, p, **options):
    x = x + attention(layer_norm(x, p["n1"], p["b1"]), p, **options)
    h = layer_norm(x, p["n2"], p["b2"])
    return x + jax.nn.gelu(h @ p["up"], approximate=False) @ p["down"]


def block_weights(d, hidden, kv=None):
    one = lambda: (1 + normal(d, scale=0.1))
    return {"q": normal(d, d), "k": normal(d, kv or d), "v": normal(d, kv or d), "o": normal(d, d), "n1": one(), "b1": normal(d),
            "n2": one(), "b2": normal(d), "up": normal(d, hidden), "down": normal(hidden, d)}


def tokens(shape, most):
    return rng.integers(0, most, (STEPS,) + shape).astype(np.int32)


# ---- programs: params, inputs (with a leading axis of steps), loss(params, **inputs) -------------------------------------------------

def encoder():
    """Layer norm, GELU by erf, rotary positions, grouped queries, one-hot cross entropy, a named scope."""
    params = {"embed": normal(20, 8), "layers": [block_weights(8, 12, 4) for _ in range(2)], "head": normal(8, 20)}
    inputs = {"ids": tokens((3, 6), 20), "labels": tokens((3, 6), 20)}

    def loss(params, ids, labels):
        x = params["embed"][ids]
        for i, p in enumerate(params["layers"]):
            with jax.named_scope(f"layer_{i}"):
                x = block(x, p, repeat=2)
        scores = jax.nn.log_softmax(x @ params["head"])
        return -(jax.nn.one_hot(labels, 20, dtype=scores.dtype) * scores).sum(-1).mean()
    return params, inputs, loss


def narrow():
    """bf16 and f16 weights and activations, sums in f32."""
    params = {"w": normal(6, 10), "v": normal(10, 6), "scale": normal(6)}
    inputs = {"x": normal(STEPS, 5, 6, scale=1.0), "y": normal(STEPS, 5, 6, scale=1.0)}

    def loss(params, x, y):
        bf16, f16 = (jnp.bfloat16, jnp.float16) if x.dtype == jnp.float32 and not EXACT else (x.dtype, x.dtype)
        h = jax.nn.silu(x.astype(bf16) @ params["w"].astype(bf16))
        h = jnp.dot(h, params["v"].astype(bf16), preferred_element_type=x.dtype)
        h = h.astype(f16) * params["scale"].astype(f16) * jnp.asarray(0.5, f16)
        p = jax.nn.softmax(h.astype(bf16), axis=-1).astype(x.dtype)
        return ((p - y) ** 2).mean()
    return params, inputs, loss


def experts():
    """vmap over layers side by side, top_k, a branch, a product and a minimum."""
    params = {"up": normal(4, 5, 6), "down": normal(4, 6, 5), "gate": normal(5, 4)}
    inputs = {"x": normal(STEPS, 6, 5, scale=1.0), "flag": rng.integers(0, 3, (STEPS,)).astype(np.int32)}

    def loss(params, x, flag):
        each = jax.vmap(lambda u, d: jnp.tanh(x @ u) @ d)(params["up"], params["down"])  # [4, 6, 5]
        values, chosen = jax.lax.top_k(x @ params["gate"], 2)
        weights = jax.nn.softmax(values)
        picked = jnp.take_along_axis(each.transpose(1, 0, 2), chosen[:, :, None], axis=1)  # [6, 2, 5]
        y = (picked * weights[:, :, None]).sum(1)
        y = jax.lax.switch(flag, [lambda v: v * 2, lambda v: v + 1, lambda v: v * v], y)
        spread = jnp.prod(1 + 0.1 * jnp.tanh(y), axis=-1) + jnp.min(y, axis=-1)
        any_large = jnp.any(y > 1.5, axis=-1)
        return (jnp.where(any_large, spread, jax.nn.softplus(y).sum(-1)) + jnp.expm1(0.1 * y[:, 0])).mean()
    return params, inputs, loss


def indices():
    """Lookups and updates of many forms."""
    params = {"table": normal(7, 5, scale=1.0), "grid": normal(4, 6, 3, scale=1.0), "v": normal(9, scale=1.0)}
    inputs = {"i": tokens((4,), 4), "j": tokens((4,), 6), "k": tokens((4, 2), 7), "at": rng.integers(0, 5, (STEPS,)).astype(np.int32)}

    def loss(params, i, j, k, at):
        t, g, v = params["table"], params["grid"], params["v"]
        total = (g[i, j] ** 2).sum()                                # two components, windows of 3
        total += (g[i, :, 1] * jnp.arange(6)).sum()                 # an array and an integer
        total += jnp.sin(g[:, j]).mean()                            # along the middle
        total += (t[k] * t[k[:, ::-1]]).sum() * 0.1                 # embeddings
        total += jnp.take(t, k - 3, axis=0, mode="clip").sum()      # outside: moved inside
        total += jnp.take(v, k * 2, mode="fill", fill_value=0.5).sum() * 0.1  # outside: filled
        total += (jax.lax.dynamic_index_in_dim(v, at, keepdims=False) ** 2)
        total += (v.at[1:3].multiply(2.0).at[-1].set(0.5) ** 3).sum()
        total += (jax.lax.dynamic_update_slice(v, v[:1] * 3, (at,)) ** 2).sum()
        counts = jnp.zeros((4, 6)).at[i, j].add(1.0)                # of what is not trained
        total += (counts * g[:, :, 2]).sum()
        total += (jnp.roll(t, 2, axis=1)[::2] * jnp.flip(t, 0)[1::2, :][:4, :].sum()).mean()
        total += jax.lax.pad(v, jnp.asarray(1.0, v.dtype), [(2, -1, 1)]).std()
        return total
    return params, inputs, loss


def scan():
    """Layers in lax.scan, each giving a value of its own; a fori_loop; a step whose backward pass runs a loop too."""
    layers = [block_weights(6, 8) for _ in range(3)]
    params = {"layers": {k: np.stack([p[k] for p in layers]) for k in layers[0]}, "out": normal(6)}
    inputs = {"x": normal(STEPS, 3, 4, 6, scale=1.0), "y": normal(STEPS, 3, 4, scale=1.0)}

    def loss(params, x, y):
        def body(carry, p):
            carry = block(carry, p)
            return carry, (carry ** 2).mean()
        x, norms = jax.lax.scan(body, x, params["layers"])
        decay = jax.lax.fori_loop(0, 3, lambda i, total: total * 0.5 + i, 1.0)
        return ((x @ params["out"] - y) ** 2).mean() + 0.01 * decay * norms.sum()
    return params, inputs, loss


def images():
    """Convolutions with groups, strides, dilations, uneven padding and other orders of dimensions, one of them transposed; pools; a running sum."""
    params = {"first": normal(3, 2, 2, 8), "second": normal(6, 8, 3, 3), "up": normal(6, 4, 2, 2), "depth": normal(4, 1, 2, 2), "out": normal(4)}
    inputs = {"x": normal(STEPS, 3, 9, 8, 4, scale=1.0), "y": normal(STEPS, 3, scale=1.0)}

    def loss(params, x, y):
        h = jax.lax.conv_general_dilated(x, params["first"], (2, 1), [(1, 2), (0, 1)], rhs_dilation=(1, 2),
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2)
        h = jax.lax.reduce_window(jax.nn.relu(h), -jnp.inf, jax.lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME")
        h = jnp.tanh(jax.lax.conv(h.transpose(0, 3, 1, 2), params["second"], (1, 1), "SAME"))
        h = jax.lax.reduce_window(h, 0.0, jax.lax.add, (1, 1, 2, 2), (1, 1, 1, 2), "VALID") / 4
        h = jax.lax.conv_transpose(h, params["up"], (2, 2), "SAME", dimension_numbers=("NCHW", "IOHW", "NCHW"))
        h = jax.lax.conv_general_dilated(jnp.cumsum(h, axis=3), params["depth"], (1, 2), [(-1, 1), (1, -1)], feature_group_count=4)
        return ((h.mean((2, 3)) @ params["out"] - y) ** 2).mean()
    return params, inputs, loss


def formats():
    """Numbers of 8-bit formats in a product and between layers, other precisions, and functions that are formulas of the arctangent."""
    params = {"w": normal(6, 10), "v": normal(10, 6), "scale": normal(6)}
    inputs = {"x": normal(STEPS, 5, 6, scale=1.0), "y": normal(STEPS, 5, 6, scale=1.0)}

    def loss(params, x, y):
        e4m3, e5m2 = jnp.float8_e4m3fn, jnp.float8_e5m2
        h = jax.lax.dot(x.astype(e4m3), params["w"].astype(e4m3), preferred_element_type=x.dtype)
        h = jnp.tanh(h).astype(e5m2).reshape(10, 5).T.astype(x.dtype)
        h = jax.lax.reduce_precision(h.reshape(5, 10) @ params["v"], 8, 3) * params["scale"]
        small = jax.lax.reduce_precision(x * 1e-4, 5, 2) * 1e4  # some are below the smallest normal number
        angle = jnp.arctan2(h, small - 0.2) + jnp.arcsin(0.9 * jnp.tanh(h)) * jnp.arccos(jnp.cos(y)) + jnp.arctan(3 * h)
        return 0.1 * ((angle - y) ** 2).mean()
    return params, inputs, loss


PROGRAMS = [encoder, narrow, experts, indices, scan, images, formats]
STEPPED = {"scan", "encoder", "images", "formats"}  # whole train steps as well
EXACT = False


def named(tree, prefix):
    def text(key):
        return str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
    return [(".".join([prefix] + [text(key) for key in path]), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


def entry(name, leaf, result=None):
    return {"name": name, "shape": list(leaf.shape), "aliases_result": result}


def momentum_step(loss):
    """SGD with momentum and a count, written in JAX."""
    def step(params, state, **batch):
        value, gradients = jax.value_and_grad(loss)(params, **batch)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], gradients)
        rate = LR / (1 + state["count"].astype(value.dtype))
        return (jax.tree.map(lambda p, v: p - rate * v, params, velocity), {"count": state["count"] + 1, "velocity": velocity}, value)
    return step


def losses(loss, params, inputs, dtype, optimizer):
    convert = lambda tree: jax.tree.map(lambda a: jnp.asarray(a, dtype if a.dtype == np.float32 else a.dtype), tree)
    params = convert(params)
    state = {"count": jnp.zeros((), jnp.int32), "velocity": jax.tree.map(jnp.zeros_like, params)}
    step = jax.jit(momentum_step(loss))
    plain = jax.jit(jax.value_and_grad(loss))
    values = []
    for i in range(STEPS):
        batch = convert({k: v[i] for k, v in inputs.items()})
        if optimizer == "step":
            params, state, value = step(params, state, **batch)
        else:
            value, gradients = plain(params, **batch)
            params = jax.tree.map(lambda p, g: p - LR * g, params, gradients)
        values.append(float(value))
    return values


def make(program, exact):
    global EXACT, rng
    rng = np.random.default_rng(7)
    name = program.__name__
    folder = os.path.join(HERE, name)
    params, inputs, loss = program()
    os.makedirs(folder, exist_ok=True)
    if not exact:
        batch = {k: v[0] for k, v in inputs.items()}
        order = named(params, "params")
        batch_order = [(n[1:], leaf) for n, leaf in named(batch, "")]
        signature = {"loss.mlir": {"arguments": [entry(n, l) for n, l in order + batch_order], "results": [{"name": "loss"}]}}
        text = jax.jit(loss).lower(params, **batch).as_text(debug_info=name == "encoder")
        text = re.sub(r'"/[^"]*/([^"/]+\.py)"', r'"\1"', text)  # of files their names only
        open(os.path.join(folder, "loss.mlir"), "w").write(text)
        if name in STEPPED:
            state = {"count": np.zeros((), np.int32), "velocity": jax.tree.map(np.zeros_like, params)}
            lowered = jax.jit(momentum_step(loss), donate_argnums=(0, 1)).lower(params, state, **batch)
            open(os.path.join(folder, "step.mlir"), "w").write(lowered.as_text())
            kept = order + named(state, "state")
            signature["step.mlir"] = {"arguments": [entry(n, l, i) for i, (n, l) in enumerate(kept)] + [entry(n, l) for n, l in batch_order],
                                      "results": [{"name": n} for n, _ in kept] + [{"name": "loss"}]}
        if name in ("experts", "images"):
            module = jax.jit(loss).lower(params, **batch).compiler_ir()
            open(os.path.join(folder, "generic.mlir"), "w").write(module.operation.get_asm(print_generic_op_form=True))
            signature["generic.mlir"] = signature["loss.mlir"]
        json.dump(signature, open(os.path.join(folder, "signature.json"), "w"), indent=1)
        np.savez(os.path.join(folder, "weights.npz"), **dict(order))
        np.savez(os.path.join(folder, "batches.npz"), **inputs)
    EXACT = True
    path = os.path.join(folder, "golden.json")
    golden = json.load(open(path)) if exact else {"steps": STEPS, "optimizers": {"sgd": {"lr": LR, "momentum": 0.0}}, "losses": {}}
    for optimizer in ["sgd"] + (["step"] if name in STEPPED else []):
        key, dtype = ("float64", jnp.float64) if exact else ("float32", jnp.float32)
        golden["losses"].setdefault(optimizer, {})[key] = losses(loss, params, inputs, dtype, optimizer)
    json.dump(golden, open(path, "w"), indent=1)
    EXACT = False


if __name__ == "__main__":
    exact = "--float64" in sys.argv
    chosen = [name for name in sys.argv[1:] if name != "--float64"]
    jax.config.update("jax_enable_x64", exact)
    for program in PROGRAMS:
        if not chosen or program.__name__ in chosen:
            make(program, exact)
    if not exact:  # types are decided when JAX starts
        sys.exit(os.system(f"{sys.executable} {__file__} --float64 {' '.join(chosen)}"))
