#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/search.md: how long `kerf plan` takes for well-known models, and how its seconds grow with ranks and layers.

    benchmarks/plan_search.py [--kerf build/bin/kerf] [--for kerf] [--only models|ranks|layers] [--base OTHER/kerf]

Each job is planned once, from its configuration to the plan, with the default budget. With --base, the same jobs are planned by another
build of kerf too, and both step times are printed. Seconds are CPU seconds of the process.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def gpt(layers, width, heads):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": 2048, "vocab_size": 51200}


LLAMA_405B = {"model_type": "llama", "num_hidden_layers": 126, "hidden_size": 16384, "num_attention_heads": 128, "num_key_value_heads": 8,
              "intermediate_size": 53248, "vocab_size": 128256}
MIXTRAL = {"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
# Name, configuration, cluster file, ranks, global batch, sequence, dtype. Sizes: Brown et al. 2020 (GPT-3), Narayanan et al. 2021 (39B, 1T), the models' own papers.
MODELS = [("GPT-3 13B", gpt(40, 5120, 40), "dgx-v100", 32, 512, 2048, "f16"),
          ("GPT 39B", gpt(48, 8192, 64), "dgx-v100", 64, 512, 2048, "f16"),
          ("GPT-3 175B", gpt(96, 12288, 96), "selene", 1024, 1536, 2048, "bf16"),
          ("GPT 1T", gpt(128, 25600, 160), "selene", 3072, 3072, 2048, "bf16"),
          ("Llama 3.1 405B", LLAMA_405B, "eos", 16384, 2048, 8192, "bf16"),
          ("Mixtral 8x7B", MIXTRAL, "eos", 512, 1024, 4096, "bf16")]
RANKS = [(f"{ranks} ranks, 48 layers", gpt(48, 8192, 64), "eos", ranks, 2048, 2048, "bf16") for ranks in (16, 64, 256, 1024, 4096, 16384)]
LAYERS = [(f"1024 ranks, {layers} layers", gpt(layers, 8192, 64), "eos", 1024, 2048, 2048, "bf16") for layers in (12, 24, 48, 96, 192)]


def cluster_of(name, ranks, folder):
    """The cluster file, with more of its outermost units where it has fewer ranks than asked for."""
    with open(os.path.join(ROOT, "clusters", name + ".json")) as file:
        cluster = json.load(file)
    inner = 1
    for level in cluster["levels"][:-1]:
        inner *= level["size"]
    cluster["levels"][-1]["size"] = max(cluster["levels"][-1]["size"], -(-ranks // inner))
    path = os.path.join(folder, "cluster.json")
    with open(path, "w") as file:
        json.dump(cluster, file)
    return path


def plan(kerf, job, trainer, folder):
    name, config, cluster, ranks, batch, sequence, dtype = job
    model = os.path.join(folder, "config.json")
    with open(model, "w") as file:
        json.dump(config, file)
    command = [kerf, "plan", model, "--cluster", cluster_of(cluster, ranks, folder), "--ranks", str(ranks), "--global-batch", str(batch),
               "--sequence", str(sequence), "--dtype", dtype, "--optimizer", "adamw", "--for", trainer, "--json", "-o", os.path.join(folder, "plan.json")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, text=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr.strip()}")
    with open(os.path.join(folder, "plan.json")) as file:
        found = json.load(file)
    step, bound = found["predicted"]["step_seconds"], found["predicted"]["lower_bound_seconds"]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [text_of(found), f"{seconds:.1f}", f"{step:.4g}", "proven" if step - bound < 1e-9 * step else f"{100 * (step - bound) / step:.2g} %"]


def text_of(found):
    """A plan in one line: mesh, schedule, optimizer sharding."""
    mesh = " × ".join(f"{axis} {size}" for axis, size in found["mesh"].items() if size > 1)
    schedule = found["schedule"]
    words = [schedule["name"], schedule.get("variant", ""), str(schedule["chunks"]) if schedule.get("chunks", 1) > 1 else ""]
    parts = [mesh] + ([" ".join(filter(None, words))] if found["mesh"].get("stage", 1) > 1 else []) + [f"sharding {found['optimizer_sharding']}"]
    return ", ".join(parts)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    options.add_argument("--base", help="another build of kerf, planned beside it")
    options.add_argument("--for", dest="trainer", default="kerf", help="who runs the plans (default: kerf)")
    options.add_argument("--only", choices=["models", "ranks", "layers"])
    asked = options.parse_args()
    print("| job | plan | seconds | predicted step, s | gap |" + (" base: plan | seconds | step, s | gap |" if asked.base else ""))
    print("|---|---|---|---|---|" + ("---|---|---|---|" if asked.base else ""))
    with tempfile.TemporaryDirectory() as folder:
        for kind, jobs in (("models", MODELS), ("ranks", RANKS), ("layers", LAYERS)):
            for job in jobs if asked.only in (None, kind) else []:
                cells = []
                for kerf in [asked.kerf] + ([asked.base] if asked.base else []):
                    cells += plan(kerf, job, asked.trainer, folder)
                print("| " + " | ".join([job[0]] + cells) + " |", flush=True)


if __name__ == "__main__":
    main()
