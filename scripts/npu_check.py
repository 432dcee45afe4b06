# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/npu-check.sh: losses on NPUs beside those of the CPU, the time of a step, and the speeds that kerf profile measures."""
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

MODELS = {"mlp": "test/models/mlp", "gpt2": "examples/gpt2", "llama": "test/models/llama"}
STEPS = 6
# Losses are compared with those of the CPU in the same type, which rounds elsewhere.
PLANS = {"data": {"data": 2}, "tensor": {"model": 2}, "stages": {"stage": 2}, "ring": {"context": 2}, "data, ZeRO 3": {"data": 2}}
TOLERANCE = {"f32": 2e-4, "f16": 2e-2, "bf16": 2e-2}


def checks(npus):
    """(name, NPUs, model, type of elements, plan or None) of each check."""
    for model in MODELS:
        for dtype in ("f32", "bf16") if model != "mlp" else ("f32",):
            yield model, 1, model, dtype, None
    for name, mesh in PLANS.items():
        if npus >= 2:
            yield f"gpt2, {name}", 2, "gpt2", "f32", {"kerf": 1, "mesh": mesh, "microbatch": 2, **({"optimizer_sharding": 3} if "ZeRO" in name else {})}
    if npus >= 4:
        yield "llama, data x tensor", 4, "llama", "bf16", {"kerf": 1, "mesh": {"data": 2, "model": 2}}
    if npus >= 8:
        yield "gpt2, stages x data x tensor", 8, "gpt2", "bf16", {"kerf": 1, "mesh": {"stage": 2, "data": 2, "model": 2}, "microbatch": 1}


def train(kerf, folder, device, model, dtype, plan):
    """Returns the losses and the milliseconds of the last step, or the message of a failure."""
    log = os.path.join(folder, "log")
    path = os.path.join(folder, "plan.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(plan, file)
    at = MODELS[model]
    args = [kerf, "train", f"{at}/model.onnx", "--data", f"{at}/batches.npz", "--steps", str(STEPS), "--optimizer", "adamw", "--lr", "1e-3",
            "--dtype", dtype, "--device", device, "--log", log, *(["--plan", path] if plan else ["--ranks", "1"])]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        found = re.search(r"error: .*", done.stderr)
        return None, found[0] if found else f"it ended with status {done.returncode}: {done.stderr[-300:]}"
    with open(log, encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    return [step["loss"] for step in steps], steps[-1]["seconds"] * 1e3


def count_npus(kerf, folder):
    """Asks kerf for an NPU that no machine has; its message says how many there are. Returns the number, or the message."""
    _, said = train(kerf, folder, "ascend:4096", "mlp", "f32", None)
    found = re.search(r"this machine has (\d+)", str(said))
    return (int(found[1]), "") if found else (0, said)


def main():
    kerf = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="npu-check-") as folder:
        there, why = count_npus(kerf, folder)
        npus = min(int(sys.argv[2]) if len(sys.argv) > 2 else 8, there)
        version = subprocess.run([kerf, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        print(f"{version}; {platform.machine()}, {platform.platform()}; {there} NPUs, {npus} used; "
              f"CANN at {os.environ.get('ASCEND_HOME_PATH') or os.environ.get('KERF_ASCEND_LIBRARIES') or 'the usual place'}")
        if npus == 0:
            sys.exit(f"no NPU can be used: {why}")
        print("\n| check | NPUs | type | largest difference of a loss | allowed | ms/step | result |\n|---|---|---|---|---|---|---|")
        failed = 0
        for name, ranks, model, dtype, plan in checks(npus):
            expected, why = train(kerf, folder, "cpu", model, dtype, plan)
            losses, time = train(kerf, folder, "ascend", model, dtype, plan)
            if losses and expected:
                difference = max(abs(a / b - 1) for a, b in zip(losses, expected))
                right = difference <= TOLERANCE[dtype]
                row = f"{difference:.1e} | {TOLERANCE[dtype]:.0e} | {time:.2f} | {'right' if right else 'WRONG'}"
            else:
                right, row = False, f" | | | FAILED: {time if expected else why}"
            failed += not right
            print(f"| {name} | {ranks} | {dtype} | {row} |", flush=True)
        done = subprocess.run([kerf, "profile", "--device", "ascend", "--quick", "-o", os.path.join(folder, "here.json")], capture_output=True, text=True,
                              check=False)
        failed += done.returncode != 0
        print("\nkerf profile --device ascend --quick:\n" + (done.stdout if done.returncode == 0 else done.stderr[-600:]))
    print(f"\n{failed} checks failed" if failed else "\nall checks passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
