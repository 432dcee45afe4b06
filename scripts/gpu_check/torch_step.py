# SPDX-License-Identifier: Apache-2.0
"""Trains a benchmark's model with PyTorch and prints, as JSON, the seconds of each step, the losses, and the largest memory of its tensors.

    python3 torch_step.py eager|compile|compile-max STEPS SPEC

SPEC is the benchmark's entry of manifest.json. The parameters are float32 and the computation runs under autocast in bf16, as Kerf's packages do; the
optimizer is fused. Attention is cuDNN's where cuDNN computes it. `compile-max` is torch.compile with max-autotune. A step copies its batch from pinned
memory, as Kerf copies each batch. The exit status is 77 where there is no PyTorch with CUDA.
GPU_CHECK_TORCH_DEVICE=cpu runs the same code without a GPU.
"""
import json
import os
import sys
import time

START = time.time()


def main():
    mode, steps, spec = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    device = os.environ.get("GPU_CHECK_TORCH_DEVICE", "cuda")
    try:
        import torch
    except ImportError:
        print(f"no PyTorch in {sys.executable}")
        return 77
    if device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} finds no GPU")
        return 77
    import torch_models
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    model = torch_models.KINDS[spec["kind"]](spec["config"]).to(device)
    if spec["kind"] == "resnet":
        model = model.to(memory_format=torch.channels_last)
    fused = {"fused": True} if device == "cuda" else {}
    if spec["optimizer"] == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=spec["lr"], weight_decay=0.01, **fused)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=spec["lr"], momentum=0.9, **fused)
    calls = {"eager": lambda: model, "compile": lambda: torch.compile(model), "compile-max": lambda: torch.compile(model, mode="max-autotune")}
    call = calls[mode]()
    batch = {}
    for one in spec["inputs"]:
        values = torch.randint(one["below"], one["shape"]) if one["dtype"] == "i64" else torch.randn(one["shape"])
        if len(one["shape"]) == 4:
            values = values.contiguous(memory_format=torch.channels_last) if spec["kind"] == "resnet" else values
        batch[one["name"]] = values.pin_memory() if device == "cuda" else values
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attention = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    seconds, losses, first = [], [], None
    for _ in range(steps):
        start = time.perf_counter()
        torch.compiler.cudagraph_mark_step_begin()  # the gradients of the step before are not needed any more
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16), sdpa_kernel(attention, set_priority=True):
            loss = call(**{name: values.to(device, non_blocking=True) for name, values in batch.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        first = first or time.time() - START
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(json.dumps({"version": torch.__version__.split("+")[0], "seconds": seconds, "losses": losses, "peak_bytes": peak, "first_step_seconds": first}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
