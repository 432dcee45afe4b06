#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small JAX functions on parts of arrays that are cut at random: every sharding rule gives the numbers of whole arrays.
KERF_ALL=1 tries more functions and cuts. The tests are skipped where JAX is missing."""
import itertools
import os
import random
import unittest

import jax_devices

WHY = ""
try:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, PartitionSpec

    from kerf.jax.layout import Layout, Value, change, layout_of, spec_of, whole
    from kerf.jax.local import Local
    from kerf.jax.trace import tree_of
except ImportError as error:
    WHY = f"a package of this test is not installed: {error}"
WHY = jax_devices.missing() or WHY

import numpy as np

ALL = bool(os.environ.get("KERF_ALL"))
CHEAP = ("loops", "gradients", "tables")
CUTS = 6 if ALL else 1  # random cuts of the arguments of each function
RANKS = {"data": 4, "model": 2}


def functions():
    """Returns functions with the shapes of their arguments, in groups that are compiled together."""
    def loops(x, w):
        def cell(carry, row):
            total, h = carry
            return (total + row @ w, jnp.tanh(h @ w)), h.sum(0)

        (total, h), sums = jax.lax.scan(cell, (jnp.zeros((8, 8)), x[0]), x, reverse=True)
        many = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1] @ w)), (0, h))[1]
        return total, sums, jax.lax.cond(x[0, 0, 0] > 0, lambda a: a * 2, lambda a: a @ w, many)

    def gradients(x, w):
        def layer(x, w):
            return jnp.tanh(jax.nn.softmax(x @ w, -1) + x)

        def loss(w, x):
            x, _ = jax.lax.scan(lambda x, w: (jax.checkpoint(layer)(x, w), None), x, w)
            return (x ** 2).mean()

        return jax.value_and_grad(loss)(w, x)

    def nested(x, w):
        def cell(h, row, w):
            return jnp.tanh(jax.nn.softmax(h @ w, -1) + row)

        def layer(x, w):
            return jax.lax.scan(lambda h, row: (jax.checkpoint(cell)(h, row, w), h @ w), x[0], x)[1]

        def loss(w, x):
            x, sums = jax.lax.scan(lambda x, w: (jax.checkpoint(layer)(x, w), (x @ w).sum(0)), x, w)
            return (x ** 2).mean() + (jnp.sin(sums) ** 2).sum()

        return jax.value_and_grad(loss)(w, x)

    def tables(table, ids, x):
        rows = (jnp.abs(ids) * 5).astype(int) % 16
        picked = table[rows]
        along = jnp.take_along_axis(x, rows[:, :4] % 8, 1)
        return picked, along, jnp.zeros_like(table).at[rows].add(picked), jax.grad(lambda t: (t[rows] ** 3).sum())(table)

    def shapes(x, y):
        parts = jnp.split(x, 2, 1)
        return (x.reshape(4, 2, 32), x.reshape(2, 16, 8).transpose(2, 0, 1).reshape(-1), x[:, None] + y, jnp.concatenate([x, parts[0]], 1),
                x[2:6, 4:], x[::-1], jnp.pad(x, ((1, 0), (0, 2))), jnp.flip(y, 1), jax.lax.dynamic_slice(x, (1, 0), (4, 32)),
                jax.lax.dynamic_update_slice(x, y[:2], (3, 0)), jnp.squeeze(x[:, :1]), jnp.arange(32) + x)

    def reductions(x, y):
        return (x.max(0), x.min(1), x.sum(), jnp.argmax(x, 1), jnp.cumsum(x, 0), jnp.sort(x, 1), x.prod(0), (x > 0).any(), jax.lax.top_k(x, 3)[0],
                jnp.where(x > y, x, 0.0), jnp.clip(x, -0.5, 0.5), x.mean(0) @ y.T, jnp.einsum("bc,dc->bd", x, y) / 3 + 1, -x.sum(0) + y.sum(0))

    def convolutions(x, k):
        def conv(x, k):
            return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        return conv(x, k), jax.grad(lambda k: (conv(x, k) ** 2).sum())(k), jax.grad(lambda x: (conv(x, k) ** 2).sum())(x)

    @jax.custom_vjp
    def clipped(x):
        return x * 2

    clipped.defvjp(lambda x: (x * 2, None), lambda _, g: (jnp.clip(g, -1, 1),))

    def others(x, y):
        noise = jax.random.uniform(jax.random.key(3), x.shape)
        return x * noise, jax.grad(lambda x: (clipped(x) * y).sum())(x), jax.nn.relu(x).astype(jnp.float32), jnp.linalg.norm(x, axis=0)

    return {"loops": (loops, (4, 8, 8), (8, 8)), "gradients": (gradients, (8, 16), (3, 16, 16)),
            "nested": (nested, (4, 8, 8), (3, 8, 8)), "tables": (tables, (16, 8), (8, 8), (8, 8)),
            "shapes": (shapes, (8, 32), (8, 32)), "reductions": (reductions, (8, 32), (8, 32)),
            "convolutions": (convolutions, (8, 4, 4, 8), (3, 3, 8, 4)),
            "others": (others, (8, 32), (8, 32))}


def some_cut(shape, dice):
    """Returns a layout without partial sums that divides the dimensions of an array."""
    dims = [[] for _ in shape]
    for axis, size in RANKS.items():
        places = [dim for dim, length in enumerate(shape) if length % (size * np.prod([RANKS[a] for a in dims[dim]], dtype=int)) == 0]
        if places and dice.random() < 0.8:
            dims[dice.choice(places)].append(axis)
    return Layout(tuple(map(tuple, dims)))


def on_parts(fn, args, layouts, mesh):
    """Returns the results of a function that runs on parts of its arguments, with what a first run has found out about its loops."""
    closed = jax.make_jaxpr(fn)(*args)
    tree = tree_of(closed.jaxpr, itertools.count())
    found = []

    def part(*arrays):
        local = Local({}, RANKS, found[0] if found else None)
        values = [Value(array, layout, RANKS) for array, layout in zip(arrays, layouts)]
        results = [value.to(whole(len(value.layout.dims))) for value in local.run(closed.jaxpr, closed.consts, values, tree)]
        found[:] = found or [local.found_wishes()]
        return results

    def mapped(*arrays):
        return jax.shard_map(part, mesh=mesh, in_specs=tuple(map(spec_of, layouts)), out_specs=[PartitionSpec()] * len(closed.jaxpr.outvars),
                             check_vma=False)(*arrays)

    jax.eval_shape(mapped, *args)
    return jax.jit(lambda *arrays: mapped(*arrays))(*args)


@unittest.skipIf(WHY, WHY)
class Rules(unittest.TestCase):
    def setUp(self):
        self.mesh = Mesh(np.array(jax.devices()[:8]).reshape(tuple(RANKS.values())), tuple(RANKS))
        self.dice = random.Random(7)

    def test_functions_on_parts(self):
        with jax.enable_x64(True):
            for name, (fn, *shapes) in functions().items():
                if not ALL and name not in CHEAP:
                    continue
                values = np.random.default_rng(5)
                args = [jnp.asarray(values.normal(size=shape)) for shape in shapes]
                expected = jax.tree.leaves(jax.jit(fn)(*args))
                for _ in range(CUTS):
                    layouts = [some_cut(shape, self.dice) for shape in shapes]
                    with self.subTest(name, layouts=layouts):
                        for got, wanted in zip(on_parts(fn, args, layouts, self.mesh), expected, strict=True):
                            self.assertEqual(got.dtype, wanted.dtype)
                            np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-10, atol=1e-10)

    def test_changes_of_layout(self):
        """Every change between two cuts, with and without partial sums, leaves the numbers as they are."""
        with jax.enable_x64(True):
            array = jnp.asarray(np.random.default_rng(1).normal(size=(8, 16)))
            for _ in range(4 * CUTS):
                old, new = some_cut(array.shape, self.dice), some_cut(array.shape, self.dice)
                free = [axis for axis in RANKS if all(axis not in axes for axes in old.dims)]
                partial = Layout(old.dims, tuple(sorted(free)))

                def part(x, old=old, new=new, partial=partial):
                    return change(change(x, old, partial, RANKS), partial, new, RANKS)

                mapped = jax.shard_map(part, mesh=self.mesh, in_specs=spec_of(old), out_specs=spec_of(new), check_vma=False)
                with self.subTest(old=old, new=new):
                    np.testing.assert_allclose(np.asarray(jax.jit(mapped)(array)), np.asarray(array), rtol=1e-12)
                    self.assertEqual(layout_of(spec_of(new), 2), new)


if __name__ == "__main__":
    unittest.main()
