# SPDX-License-Identifier: Apache-2.0
"""The limits of this machine for training.py: the speed of products in f32 and bf16 and of memory, measured with two threads, and the processor's name."""
import dataclasses
import time

THREADS = 2
# Rows, inner size and columns of the products: those of layers, and square ones.
PRODUCTS = [(512, 512, 512), (512, 768, 3072), (1024, 1024, 1024), (512, 3072, 4096), (2048, 2048, 2048)]
COPY_BYTES = 512 << 20
# The fastest of several tries counts, because other load on the machine only makes tries slower.
SECONDS_OF_TRIES, LEAST_TRIES = 1.0, 5
MATRIX_UNITS = {"amx_bf16"}  # flags in /proc/cpuinfo of units that multiply matrices of bf16


@dataclasses.dataclass(frozen=True)
class Limits:
    flops_per_second: dict  # of products, by dtype
    bytes_per_second: float  # of a copy: bytes read and bytes written
    matrix_units: bool  # true if the processor multiplies matrices of bf16

    def seconds(self, flops, bytes, dtype):
        """Returns the least seconds of a step: its products at the product peak, and its least bytes at the speed of memory, one after the other."""
        return flops / self.flops_per_second[dtype] + bytes / self.bytes_per_second


def processor():
    """Returns the processor's name and its flags."""
    fields = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    return fields.get("model name", "unknown processor"), set((fields.get("flags") or fields.get("Features", "")).split())


def best_seconds(call):
    call()
    tries = []
    while len(tries) < LEAST_TRIES or sum(tries) < SECONDS_OF_TRIES:
        start = time.perf_counter()
        call()
        tries.append(time.perf_counter() - start)
    return min(tries)


def product_peak(dtype):
    """Returns the best FLOP/s of products: torch.matmul (MKL, and oneDNN for bf16), and a convolution with a 1 x 1 kernel, which oneDNN computes in f32 too."""
    import torch
    best = 0.0
    for rows, inner, columns in PRODUCTS:
        a, b = torch.randn(rows, inner, dtype=dtype), torch.randn(inner, columns, dtype=dtype)
        image, kernel = torch.randn(1, inner, 1, columns, dtype=dtype), torch.randn(rows, inner, 1, 1, dtype=dtype)
        out = torch.empty(rows, columns, dtype=dtype)
        seconds = min(best_seconds(lambda: torch.matmul(a, b, out=out)), best_seconds(lambda: torch.nn.functional.conv2d(image, kernel)))
        best = max(best, 2 * rows * inner * columns / seconds)
    return best


def memory_speed():
    """Returns the best bytes per second, read and written, of a copy between tensors that no cache can hold."""
    import torch
    source, target = torch.ones(COPY_BYTES // 4), torch.ones(COPY_BYTES // 4)
    return 2 * COPY_BYTES / best_seconds(lambda: target.copy_(source))


def measure():
    """Returns the limits of this machine and prints them."""
    import torch
    torch.set_num_threads(THREADS)
    name, flags = processor()
    with torch.no_grad():
        limits = Limits({"f32": product_peak(torch.float32), "bf16": product_peak(torch.bfloat16)}, memory_speed(), bool(flags & MATRIX_UNITS))
    print(f"{name}: {'with' if 'avx512f' in flags else 'without'} AVX-512, {'with' if limits.matrix_units else 'without'} AMX for bf16; "
          f"PyTorch {torch.__version__}")
    print(f"limits with {THREADS} threads: products {limits.flops_per_second['f32'] / 1e9:.0f} GFLOP/s in f32 and "
          f"{limits.flops_per_second['bf16'] / 1e9:.0f} in bf16 (the best of torch.matmul and of 1 x 1 convolutions of {len(PRODUCTS)} sizes), "
          f"memory {limits.bytes_per_second / 1e9:.1f} GB/s (a copy of {COPY_BYTES >> 20} MiB, read and written)", flush=True)
    return limits
