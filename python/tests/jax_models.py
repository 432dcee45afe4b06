# SPDX-License-Identifier: Apache-2.0
"""Small JAX programs for the tests: each entry has a function, its arguments, and the arguments that it replaces."""
import jax
import jax.numpy as jnp
import numpy as np

LAYERS, BATCH, LENGTH, WIDTH, HIDDEN, HEADS, WORDS = 2, 16, 16, 32, 128, 8, 64


def arrays(shapes, dtype):
    """Returns a tree of random arrays with the shapes of a tree of tuples."""
    random = np.random.default_rng(0)
    return jax.tree.map(lambda shape: jnp.asarray(random.normal(size=shape) * 0.2, dtype), shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))


def trained(loss, params, *batch, rate=0.1):
    """Returns a step of SGD with momentum."""
    def step(params, momentum, *batch):
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - rate * m, params, momentum), momentum, value

    return step, (params, jax.tree.map(jnp.zeros_like, params), *batch), {"params": 0, "momentum": 1}


def mlp(dtype, rate=0.1):
    def loss(params, x, y):
        for i, layer in enumerate(params):
            with jax.named_scope(f"layer_{i}"):
                x = x + jnp.tanh(x @ layer["up"] + layer["bias"]) @ layer["down"]
        return jnp.mean((x - y) ** 2)

    layer = {"up": (WIDTH, HIDDEN), "bias": (HIDDEN,), "down": (HIDDEN, WIDTH)}
    return trained(loss, arrays([layer] * LAYERS, dtype), *arrays([(BATCH, WIDTH)] * 2, dtype), rate=rate)


def normed(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(layer, x, causal):
    parts = [jnp.einsum("btc,chd->bthd", x, layer[name]) for name in "qkv"]
    scores = jnp.einsum("bthd,bshd->bhts", parts[0], parts[1]) / np.sqrt(WIDTH // HEADS)
    if causal:
        scores = jnp.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), parts[2])
    return jnp.einsum("bthd,hdc->btc", mixed, layer["o"])


def block(layer, x, causal):
    x = x + attention(layer, normed(x), causal)
    return x + jax.nn.gelu(normed(x) @ layer["up"]) @ layer["down"]


BLOCK = {**{name: (WIDTH, HEADS, WIDTH // HEADS) for name in "qkv"}, "o": (HEADS, WIDTH // HEADS, WIDTH), "up": (WIDTH, HIDDEN),
         "down": (HIDDEN, WIDTH)}


def transformer(dtype, run=block):
    def loss(params, x, y):
        for i, layer in enumerate(params):
            with jax.named_scope(f"layer_{i}"):
                x = run(layer, x, False)
        return jnp.mean((x - y) ** 2)

    return trained(loss, arrays([BLOCK] * LAYERS, dtype), *arrays([(BATCH, LENGTH, WIDTH)] * 2, dtype))


def remat(dtype):
    return transformer(dtype, jax.checkpoint(block, static_argnums=(2,)))


def gpt_loss(params, ids, labels):
    x = params["tokens"][ids] + params["positions"]
    for i, layer in enumerate(params["layers"]):
        with jax.named_scope(f"layer_{i}"):
            x = block(layer, x, True)
    logits = normed(x) @ params["tokens"].T
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))


def gpt_arguments(dtype):
    params = arrays({"tokens": (WORDS, WIDTH), "positions": (LENGTH, WIDTH), "layers": [BLOCK] * LAYERS}, dtype)
    ids = jnp.asarray(np.random.default_rng(1).integers(0, WORDS, (BATCH, LENGTH)), jnp.int32)
    return params, ids, (ids * 5 + 1) % WORDS


def gpt(dtype):
    return trained(gpt_loss, *gpt_arguments(dtype))


def gpt_only_loss(dtype):
    return gpt_loss, gpt_arguments(dtype), {}


def adamw(dtype):
    import optax

    optimizer = optax.adamw(1e-2)

    def step(params, state, ids, labels):
        value, gradients = jax.value_and_grad(gpt_loss)(params, ids, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    params, ids, labels = gpt_arguments(dtype)
    return step, (params, optimizer.init(params), ids, labels), {"params": 0, "state": 1}


def scan(dtype, run=block):
    def loss(params, x, y):
        x, _ = jax.lax.scan(lambda x, layer: (run(layer, x, False), None), x, params)
        return jnp.mean((x - y) ** 2)

    stacked = jax.tree.map(lambda shape: (LAYERS, *shape), BLOCK, is_leaf=lambda leaf: isinstance(leaf, tuple))
    return trained(loss, arrays(stacked, dtype), *arrays([(BATCH, LENGTH, WIDTH)] * 2, dtype))


def scan_remat(dtype):
    return scan(dtype, jax.checkpoint(block, static_argnums=(2,)))


def cnn(dtype):
    def loss(params, images, y):
        x = images
        for kernel in params["kernels"]:
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return jnp.mean((x.mean((1, 2)) @ params["head"] - y) ** 2)

    params = arrays({"kernels": [(3, 3, 8, 16), (3, 3, 16, 16)], "head": (16, 8)}, dtype)
    return trained(loss, params, *arrays([(BATCH, 8, 8, 8), (BATCH, 8)], dtype))


def moe(dtype):
    def loss(params, x, y):
        gates = jax.nn.softmax(x @ params["router"])
        hidden = jax.nn.silu(jnp.einsum("bc,ech->ebh", x, params["up"]))
        return jnp.mean((jnp.einsum("ebh,ehc,be->bc", hidden, params["down"], gates) - y) ** 2)

    experts = 8
    params = arrays({"router": (WIDTH, experts), "up": (experts, WIDTH, HIDDEN), "down": (experts, HIDDEN, WIDTH)}, dtype)
    return trained(loss, params, *arrays([(BATCH, WIDTH)] * 2, dtype))


def rnn(dtype):
    def loss(params, x, y):
        def cell(h, now):
            return jnp.tanh(now @ params["in"] + h @ params["again"]), None

        h, _ = jax.lax.scan(cell, jnp.zeros((BATCH, HIDDEN), dtype), x)
        return jnp.mean((h @ params["out"] - y) ** 2)

    params = arrays({"in": (WIDTH, HIDDEN), "again": (HIDDEN, HIDDEN), "out": (HIDDEN, WIDTH)}, dtype)
    return trained(loss, params, *arrays([(6, BATCH, WIDTH), (BATCH, WIDTH)], dtype))


MODELS = {function.__name__: function for function in (mlp, cnn, transformer, gpt, gpt_only_loss, adamw, scan, remat, scan_remat, moe, rnn)}
