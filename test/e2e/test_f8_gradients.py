#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gradients of a product with 8-bit factors, on CPUs and on the stand-ins of GPUs.

The model is y = (p * ones) w with the loss sum(y * c). In float64 the gradients are dw = h^T c and dp = c w^T, with h = p. Kerf rounds h and w
to e4m3 (3 bits of mantissa) and c to e5m2 (2 bits). A factor x with the largest absolute value A becomes x + d, with
|d| <= max(|x| 2^-(bits+1), s 2^-(bits+1) 2^e), where s = A / (largest number of the format) and 2^e is the smallest normal number. A sum of
products a_i b_i is therefore wrong by at most sum(|a_i| |db_i| + |b_i| |da_i| + |da_i| |db_i|). The second term of the bound of d is for
numbers below the smallest normal one. dp is rounded to bf16 once more.
"""
import math
import os
import random
import struct
from unittest import mock

from support import KERF, KerfTest, main, read_safetensors, write_npz

N = 48  # all matrices are square, so that a missing transposition gives other numbers and not another shape
E4M3, E5M2 = (3, -6, 448.0), (2, -14, 57344.0)  # bits of mantissa, exponent of the smallest normal number, largest number
STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins")
MODEL = f"""
func.func @main(%ones: tensor<{N}x{N}xf32> {{kerf.kind = "input", kerf.name = "ones"}},
                %c: tensor<{N}x{N}xf32> {{kerf.kind = "input", kerf.name = "c"}},
                %p: tensor<{N}x{N}xf32> {{kerf.kind = "parameter", kerf.name = "p", kerf.trainable}},
                %w: tensor<{N}x{N}xf32> {{kerf.kind = "parameter", kerf.name = "w", kerf.trainable}}) -> (tensor<f32> {{kerf.name = "loss"}}) {{
  %h = kerf.multiply %p, %ones : (tensor<{N}x{N}xf32>, tensor<{N}x{N}xf32>) -> tensor<{N}x{N}xf32>
  %y = kerf.dot_general %h, %w {{lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}} : (tensor<{N}x{N}xf32>, tensor<{N}x{N}xf32>) -> tensor<{N}x{N}xf32>
  %z = kerf.multiply %y, %c : (tensor<{N}x{N}xf32>, tensor<{N}x{N}xf32>) -> tensor<{N}x{N}xf32>
  %loss = kerf.reduce %z {{kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>}} : (tensor<{N}x{N}xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}}
"""


def to_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def rounded(x, bits, least, most=math.inf):
    """x with so many bits of mantissa, to nearest even; numbers below 2^least have its spacing."""
    if x == 0:
        return 0.0
    step = 2.0 ** (max(math.frexp(x)[1] - 1, least) - bits)
    return max(-most, min(most, round(x / step) * step))


def to_bf16(x):
    return rounded(x, 7, -126)


def quantized(matrix, form):
    """(the numbers that the 8-bit copy stands for, the largest error of each element by the bound above)."""
    bits, least, most = form
    magnitude = max(abs(x) for row in matrix for x in row)
    scale, back = to_f32(most / magnitude), to_f32(magnitude / most)
    copy = [[rounded(to_f32(x * scale), bits, least, most) * back for x in row] for row in matrix]
    errors = [[max(abs(x), magnitude / most * 2.0 ** least) * 2.0 ** -(bits + 1) * (1 + 1e-6) for x in row] for row in matrix]
    return copy, errors


def transposed(matrix):
    return [list(row) for row in zip(*matrix)]


def product(a, b):
    columns = transposed(b)
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def absolute(matrix):
    return [[abs(x) for x in row] for row in matrix]


def distance(a, b):
    """The largest difference of two matrices, relative to the largest element of `b`."""
    return max(abs(x - y) for r, s in zip(a, b) for x, y in zip(r, s)) / max(abs(y) for s in b for y in s)


class Gradients(KerfTest):
    def setUp(self):
        super().setUp()
        rnd = random.Random(8)

        def matrix():  # of bf16 numbers of many sizes, some of which are below the smallest normal 8-bit number
            return [[to_bf16(rnd.gauss(0, 1) * 2.0 ** -rnd.choice((0, 0, 1, 2, 4, 9, 17))) for _ in range(N)] for _ in range(N)]
        self.p, self.w, self.c = matrix(), matrix(), matrix()

    def trained(self, *more):
        """(dp, dw): the differences that one step with learning rate 1 makes."""
        def array(matrix, *lead):
            return "<f4", [*lead, N, N], struct.pack(f"<{N * N}f", *(x for row in matrix for x in row))
        model = self.write("model.mlir", MODEL)
        data = write_npz(self.path("data.npz"), {"ones": array([[1.0] * N] * N, 1), "c": array(self.c, 1)})
        weights = write_npz(self.path("weights.npz"), {"p": array(self.p), "w": array(self.w)})
        self.succeed("train", model, "--data", data, "--weights", weights, "--steps", 1, "--lr", 1, "--dtype", "f8", "--save", self.path("saved"), *more)
        saved = read_safetensors(self.path("saved"))
        gradients = []
        for name, before in (("p", self.p), ("w", self.w)):
            after = struct.unpack(f"<{N * N}f", saved[name][2])
            gradients.append([[before[i][j] - after[i * N + j] for j in range(N)] for i in range(N)])
        return gradients

    def check(self, dp, dw):
        (h, h_error), (w, w_error), (c, c_error) = quantized(self.p, E4M3), quantized(self.w, E4M3), quantized(self.c, E5M2)
        # What Kerf computes is these numbers: f32 sums for dw, rounded to bf16 for dp. The differences of parameters are rounded to f32.
        self.assertLess(distance(dw, product(transposed(h), c)), 2e-6)
        self.assertLess(distance(dp, product(c, transposed(w))), 2.0 ** -8)
        # Other numbers would be seen: formats the wrong way round, factors as they lie, the scale of another format.
        wrong_h, wrong_c, wrong_w = quantized(self.p, E5M2)[0], quantized(self.c, E4M3)[0], quantized(self.w, E5M2)[0]
        for wrong in (product(transposed(wrong_h), wrong_c), product(h, c), [[x * 1.01 for x in row] for row in product(transposed(h), c)]):
            self.assertGreater(distance(dw, wrong), 5e-3)
        for wrong in (product(wrong_c, transposed(wrong_w)), product(c, w)):
            self.assertGreater(distance(dp, wrong), 2.0 ** -7)
        # The gradients in float64, within the bound of the two roundings.
        for got, a, b, a_error, b_error, more in ((dw, transposed(self.p), self.c, transposed(h_error), c_error, 2e-6),
                                                 (dp, self.c, transposed(self.w), c_error, transposed(w_error), 2.0 ** -8)):
            exact = product(a, b)
            bound = [product(absolute(a), b_error), product(a_error, absolute(b)), product(a_error, b_error)]
            worst = 0
            for i in range(N):
                for j in range(N):
                    most = sum(part[i][j] for part in bound)
                    worst = max(worst, abs(got[i][j] - exact[i][j]) / (most + more * (abs(exact[i][j]) + most)))
            self.assertLess(worst, 1)
            self.assertGreater(worst, 0.05)  # the factors have been rounded to 8 bits

    def test_cpu(self):
        self.check(*self.trained("--ranks", 1))

    def test_ranks_that_hold_parts_of_the_factors(self):
        self.check(*self.trained("--ranks", 2, "--all-ranks"))

    def test_gpus(self):
        """GPUs of compute capability 8.9 and newer multiply 8-bit factors, older ones 16-bit copies."""
        for capability in ("8.0", "9.0"):
            with self.subTest(capability), mock.patch.dict(os.environ, KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_CAPABILITY=capability):
                self.check(*self.trained("--ranks", 1, "--device", "cuda"))


if __name__ == "__main__":
    main()
