# SPDX-License-Identifier: Apache-2.0
"""The models that are measured, and the data that they are trained on."""
import json
import math
import os
import random
import struct
import sys
import zipfile

GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}
LLAMA = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 2,
         "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
VIT = {"model_type": "vit", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 224,
       "patch_size": 16, "num_labels": 1000}
RESNET = {"image_size": 224, "num_labels": 1000, "blocks": [3, 4, 6, 3]}


def transformer_flops(tokens, keys, layers, width, weights):
    """Returns the operations of a step, forward and backward: 6 for each weight and token, and 12 for each layer, element of a token's vector and
    key that a token attends to."""
    return tokens * (6 * weights + 12 * layers * width * keys)


def gpt2_flops(config, batch, sequence):
    width, layers = config["n_embd"], config["n_layer"]
    weights = 12 * layers * width**2 + width * (config["vocab_size"] + config["n_positions"])  # llm.c counts the positions too
    return transformer_flops(batch * sequence, sequence // 2, layers, width, weights)


def llama_flops(config, batch, sequence):
    width, layers = config["hidden_size"], config["num_hidden_layers"]
    weights = layers * (4 * width**2 + 3 * width * config["intermediate_size"]) + width * config["vocab_size"]
    return transformer_flops(batch * sequence, sequence // 2, layers, width, weights)


def vit_flops(config, batch):
    width, layers = config["hidden_size"], config["num_hidden_layers"]
    tokens = (config["image_size"] // config["patch_size"])**2 + 1
    weights = layers * (4 * width**2 + 2 * width * config["intermediate_size"]) + 3 * config["patch_size"]**2 * width
    return transformer_flops(batch * tokens, tokens, layers, width, weights)


def resnet_flops(config, batch):
    """Counts the multiplications and additions of all convolutions and of the last product; the backward pass has twice the forward's."""
    size, channels = config["image_size"] // 2, 64
    macs = size**2 * 64 * 3 * 49
    size //= 2
    for stage, blocks in enumerate(config["blocks"]):
        width, outputs = 64 << stage, 256 << stage
        for index in range(blocks):
            before, size = size, size // (2 if stage and not index else 1)
            macs += before**2 * channels * width + size**2 * (9 * width**2 + width * outputs)
            macs += 0 if index else size**2 * channels * outputs
            channels = outputs
    return 6 * batch * (macs + channels * config["num_labels"])


def tokens_of(batch, sequence, vocabulary, *ones):
    """Returns the inputs of a language model. `ones` are further inputs, whose elements are all 1."""
    return [*({"name": name, "dtype": "i64", "shape": [batch, sequence], "below": vocabulary} for name in ("input_ids", "labels")),
            *({"name": name, "dtype": "i64", "shape": [batch, sequence], "from": 1, "below": 2} for name in ones)]


def images_of(name, batch, config):
    return [{"name": name, "dtype": "f32", "shape": [batch, 3, config["image_size"], config["image_size"]]},
            {"name": "labels", "dtype": "i64", "shape": [batch], "below": config["num_labels"]}]


def specs(small):
    """Returns the benchmarks, the most valuable first; with `small`, of the same structure and tiny. PyTorch is measured beside those in bf16."""
    gpt2, llama, vit, resnet, sizes = GPT2, LLAMA, VIT, RESNET, {"gpt2": (64, 1024), "llama": (8, 2048), "images": 256}
    if small:
        gpt2 = {**GPT2, "vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
        llama = {**LLAMA, "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                 "num_key_value_heads": 2}
        vit = {**VIT, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "num_labels": 7}
        resnet = {"image_size": 32, "num_labels": 7, "blocks": [1]}
        sizes = {"gpt2": (2, 16), "llama": (2, 16), "images": 2}
    (batch, sequence), (batch_llama, sequence_llama), count = sizes["gpt2"], sizes["llama"], sizes["images"]
    adamw = {"optimizer": "adamw", "options": ["--optimizer", "adamw"], "lr": 1e-4}
    models = [
        {"name": "gpt2-124m", "kind": "gpt2", "config": gpt2, "unit": "tokens", "per_step": batch * sequence, **adamw,
         "sizes": ["--global-batch", str(batch), "--sequence", str(sequence)], "inputs": tokens_of(batch, sequence, gpt2["vocab_size"]),
         "flops": gpt2_flops(gpt2, batch, sequence)},
        {"name": "llama-7b-2-layers", "kind": "llama", "config": llama, "unit": "tokens", "per_step": batch_llama * sequence_llama, **adamw,
         "sizes": ["--global-batch", str(batch_llama), "--sequence", str(sequence_llama)],
         "inputs": tokens_of(batch_llama, sequence_llama, llama["vocab_size"]), "flops": llama_flops(llama, batch_llama, sequence_llama)},
        {"name": "vit-l16", "kind": "vit", "config": vit, "unit": "images", "per_step": count, **adamw, "sizes": ["--global-batch", str(count)],
         "inputs": images_of("pixel_values", count, vit), "flops": vit_flops(vit, count)},
        {"name": "resnet-50", "kind": "resnet", "config": resnet, "unit": "images", "per_step": count, "optimizer": "sgd", "lr": 1e-2,
         "options": ["--optimizer", "sgd", "--momentum", "0.9"], "sizes": [], "inputs": images_of("images", count, resnet),
         "flops": resnet_flops(resnet, count)},
    ]
    return [*({**one, "dtype": "bf16"} for one in models), {**models[1], "name": models[1]["name"] + "-f8", "dtype": "f8"}]


def plans(small):
    """Returns models under a plan each, whose steps are compared with predictions; with `small`, one tiny model under two plans."""
    base = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024}
    medium, xl = {**base, "n_embd": 1024, "n_layer": 24, "n_head": 16}, {**base, "n_embd": 1600, "n_layer": 48, "n_head": 25}
    tiny = {"model_type": "gpt2", "vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    qwen = {"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
            "num_key_value_heads": 2, "max_position_embeddings": 4096, "tie_word_embeddings": True}
    mixtral = {"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 4,
               "num_attention_heads": 16, "num_key_value_heads": 4, "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 2048}
    bert = {"model_type": "bert", "vocab_size": 30522, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
            "max_position_embeddings": 512}
    t5 = {"model_type": "t5", "vocab_size": 32128, "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
    vit = {**VIT, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    llama = {**LLAMA, "num_hidden_layers": 4, "max_position_embeddings": 4096}
    masks = {"bert": ["attention_mask", "token_type_ids"], "t5": ["attention_mask"]}

    def language(name, config, batch, sequence, constraints, dtype="bf16", more=()):
        kind = config["model_type"]
        return {"name": name, "kind": kind, "config": config, "unit": "tokens", "per_step": batch * sequence, "dtype": dtype, "constraints": constraints,
                "optimizer": "adamw", "options": ["--optimizer", "adamw"], "lr": 1e-4, "flops": None,
                "sizes": ["--global-batch", str(batch), "--sequence", str(sequence), *more],
                "inputs": tokens_of(batch, sequence, config["vocab_size"], *masks.get(kind, []))}

    recompute, parts = {"recompute": "full"}, {"microbatch": 8}
    if small:
        return [language("tiny gpt2", tiny, 4, 16, {}), language("tiny gpt2 recomputed", tiny, 4, 16, recompute)]
    images = 128
    return [
        language("GPT-2 124M recomputed", GPT2, 64, 1024, recompute),
        language("GPT-2 124M f32", GPT2, 8, 1024, {}, "f32"),
        language("GPT-2 355M", medium, 16, 1024, {}),
        language("GPT-2 355M in 4 microbatches", medium, 32, 1024, parts),
        language("GPT-2 1.5B recomputed", xl, 8, 1024, recompute),
        language("LLaMA 7B 4 layers recomputed", llama, 4, 4096, recompute),
        language("Qwen2 0.5B", qwen, 4, 2048, {}),
        language("Mixtral 4 layers", mixtral, 8, 1024, {}, more=["--expert-capacity", "1"]),
        language("BERT large", bert, 32, 512, {}),
        language("T5 base", t5, 32, 512, {}),
        {"name": "ViT-B/16", "kind": "vit", "config": vit, "unit": "images", "per_step": images, "dtype": "bf16", "constraints": {}, "optimizer": "adamw",
         "options": ["--optimizer", "adamw"], "lr": 1e-4, "flops": None, "sizes": ["--global-batch", str(images)],
         "inputs": images_of("pixel_values", images, vit)},
        {"name": "ResNet-101", "kind": "resnet", "config": {**RESNET, "blocks": [3, 4, 23, 3]}, "unit": "images", "per_step": images, "dtype": "bf16",
         "constraints": {}, "optimizer": "sgd", "options": ["--optimizer", "sgd", "--momentum", "0.9"], "lr": 1e-2, "flops": None, "sizes": [],
         "inputs": images_of("images", images, RESNET)},
    ]


def model_file(spec, folder):
    """Writes the model for `kerf compile`, without weights, and returns its path."""
    config = spec["config"]
    if spec["kind"] != "resnet":
        path = os.path.join(folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        return path
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "e2e"))
    import images
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as file:
        file.write(images.resnet50(spec["per_step"], config["image_size"], config["num_labels"], images.NetFromSeed(), config["blocks"]))
    return path


def constraints_of(spec, folder):
    """Returns the options that give a program of Kerf the decisions that the plan of `spec` has to have."""
    if not spec.get("constraints"):
        return []
    path = os.path.join(folder, "constraints.json")
    with open(path, "w") as file:
        json.dump({"kerf": 1, **spec["constraints"]}, file)
    return ["--constraints", path]


def write_data(path, inputs):
    """Writes one batch of random data as an .npz file. Long arrays of numbers repeat 65,536 of them."""
    rnd = random.Random(7)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for one in inputs:
            count = math.prod(one["shape"])
            some = min(count, 1 << 16)
            if one["dtype"] == "i64":
                kind, data = "<i8", struct.pack(f"<{some}q", *(rnd.randrange(one.get("from", 0), one["below"]) for _ in range(some)))
            else:
                kind, data = "<f4", struct.pack(f"<{some}f", *(rnd.gauss(0, 1) for _ in range(some)))
            data = (data * -(-count // some))[:count * (len(data) // some)]
            header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple([1, *one['shape']])}, }}"
            header += " " * (-(len(header) + 11) % 64) + "\n"
            with archive.open(one["name"] + ".npy", "w", force_zip64=True) as file:
                file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
                file.write(data)
