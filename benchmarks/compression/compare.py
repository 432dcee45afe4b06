#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares planners of gradient compression on the gradients of models, at bandwidths from 0.1 to 100 Gbit/s.

    compare.py [--program build/bin/compare-planners] [--nodes 4] [--per-node 4] [--tokens 16384] [CONFIG.json ...]

Each table has the seconds from the start of the last backward to the last sum of gradients, by the timeline of
docs/compression-planning.md, for plans that compress nothing, all matrices, those of at least 1 MiB, those that SeCoPa or Espresso
choose, and Kerf's; the lower bound of all plans; the share of the bytes that Kerf compresses; and the time that Kerf's planner took.
"All", the threshold and SeCoPa have the codec int4. Gradients have 32 bits and devices are A100s."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GIGABITS = ["0.1", "1", "3", "10", "25", "100"]


def transformer(layers, width, feed_forward, vocabulary, gated, kv_width=None):
    """The parameters of a decoder in forward order, as (name, rows, columns); columns is 0 for vectors."""
    kv_width = kv_width or width
    rows = [("embedding", vocabulary, width)]
    for layer in range(layers):
        rows += [(f"h.{layer}.norm1", width, 0), (f"h.{layer}.q", width, width), (f"h.{layer}.k", width, kv_width), (f"h.{layer}.v", width, kv_width),
                 (f"h.{layer}.o", width, width), (f"h.{layer}.norm2", width, 0), (f"h.{layer}.up", width, feed_forward)]
        rows += [(f"h.{layer}.gate", width, feed_forward)] if gated else []
        rows += [(f"h.{layer}.down", feed_forward, width)]
    return rows + [("norm", width, 0), ("head", vocabulary, width)]


def of_config(path):
    with open(path) as file:
        config = json.load(file)
    width = config.get("hidden_size") or config["n_embd"]
    layers = config.get("num_hidden_layers") or config["n_layer"]
    heads = config.get("num_attention_heads") or config["n_head"]
    kv = config.get("num_key_value_heads") or heads
    gated = config.get("hidden_act") == "silu"
    inner = config.get("intermediate_size") or config.get("n_inner") or 4 * width
    return transformer(layers, width, inner, config["vocab_size"], gated, width * kv // heads)


def vgg19():
    channels = [(64, 3), (64, 64), (128, 64), (128, 128), (256, 128)] + [(256, 256)] * 3 + [(512, 256)] + [(512, 512)] * 7
    rows = []
    for number, (out, into) in enumerate(channels):
        rows += [(f"conv{number}.weight", out, 9 * into), (f"conv{number}.bias", out, 0)]
    for number, (out, into) in enumerate([(4096, 25088), (4096, 4096), (1000, 4096)]):
        rows += [(f"fc{number}.weight", out, into), (f"fc{number}.bias", out, 0)]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", metavar="CONFIG.json", help="models besides GPT-2 and VGG19 (default: LLaMA 2 7B of examples/)")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "compare-planners"))
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--per-node", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16384, help="tokens of a rank in the last microbatch")
    parser.add_argument("--gigabits", nargs="+", default=GIGABITS)
    options = parser.parse_args()
    models = {"GPT-2 124M": transformer(12, 768, 3072, 50257, False), "VGG19": vgg19()}
    for config in options.configs or [os.path.join(ROOT, "examples", "llama-2-7b", "config.json")]:
        models[os.path.relpath(config, ROOT)] = of_config(config)
    print(f"{options.nodes} nodes of {options.per_node} devices, {options.tokens} tokens on each; seconds")
    for name, gradients in models.items():
        print(f"\n{name}: {len(gradients)} gradients\n", flush=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(f"{one} {rows} {columns}\n" for one, rows, columns in gradients)
            file.flush()
            if subprocess.run([options.program, file.name, str(options.nodes), str(options.per_node), str(options.tokens), *options.gigabits]).returncode:
                sys.exit(f"compare.py: {options.program} failed; build it with `ninja -C build compare-planners`")


if __name__ == "__main__":
    main()
