# SPDX-License-Identifier: Apache-2.0
"""The models and cases of training.py: sizes, inputs, the file that Kerf reads, and the FLOPs of the products. training_torch.py has PyTorch's modules."""
import dataclasses
import json
import os
import random
import struct
import sys
from typing import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
import images  # noqa: E402
from support import write_npz  # noqa: E402

# The keys are those of Hugging Face's configurations; Kerf reads them from a config.json.
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "vocab_size": 50257}
LLAMA = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 768, "num_attention_heads": 12, "num_key_value_heads": 4,
         "intermediate_size": 2048, "vocab_size": 32000, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
         "tie_word_embeddings": False}
VIT = {"model_type": "vit", "num_hidden_layers": 12, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536, "image_size": 224,
       "patch_size": 16, "num_channels": 3, "num_labels": 1000, "layer_norm_eps": 1e-12}
# A ResNet-18; Kerf reads it from an ONNX file.
CNN = {"channels": 64, "stages": 4, "blocks": 2, "image_size": 64, "num_labels": 1000}
TEXTS, SEQUENCE = 4, 128  # batch and tokens of gpt2 and llama
VIT_IMAGES, CNN_IMAGES = 8, 16  # batches


# ---- FLOPs of the products -----------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Product:
    """A matrix product or convolution. The gradient of each of its `trained` factors takes as many FLOPs as the product itself."""
    flops: int
    trained: int = 2

    def step_flops(self):
        return self.flops * (1 + self.trained)


def linear(rows, inputs, outputs, trained=2):
    return Product(2 * rows * inputs * outputs, trained)


def convolution(count, side, inputs, outputs, kernel, trained=2):
    """Returns the product of a convolution of `count` images whose outputs have side x side pixels. Multiplications by padding count."""
    return linear(count * side * side, inputs * kernel * kernel, outputs, trained)


def attention(batch, sequence, width, causal):
    """Returns the products of queries by keys and of probabilities by values. Pairs that a causal mask leaves out do not count."""
    pairs = sequence * (sequence + 1) // 2 if causal else sequence * sequence
    return Product(2 * 2 * batch * pairs * width)


def gpt2_products():
    width, tokens = GPT2["n_embd"], TEXTS * SEQUENCE
    layer = [linear(tokens, width, 3 * width), attention(TEXTS, SEQUENCE, width, causal=True), linear(tokens, width, width),
             linear(tokens, width, 4 * width), linear(tokens, 4 * width, width)]
    return GPT2["n_layer"] * layer + [linear(tokens, width, GPT2["vocab_size"])]


def llama_products():
    width, hidden, tokens = LLAMA["hidden_size"], LLAMA["intermediate_size"], TEXTS * SEQUENCE
    keys = width * LLAMA["num_key_value_heads"] // LLAMA["num_attention_heads"]
    layer = [linear(tokens, width, width + 2 * keys), attention(TEXTS, SEQUENCE, width, causal=True), linear(tokens, width, width),
             linear(tokens, width, 2 * hidden), linear(tokens, hidden, width)]
    return LLAMA["num_hidden_layers"] * layer + [linear(tokens, width, LLAMA["vocab_size"])]


def vit_products():
    width, hidden, patch = VIT["hidden_size"], VIT["intermediate_size"], VIT["patch_size"]
    side = VIT["image_size"] // patch
    sequence = side * side + 1  # one more for the class token
    tokens = VIT_IMAGES * sequence
    layer = [linear(tokens, width, 3 * width), attention(VIT_IMAGES, sequence, width, causal=False), linear(tokens, width, width),
             linear(tokens, width, hidden), linear(tokens, hidden, width)]
    return [convolution(VIT_IMAGES, side, VIT["num_channels"], width, patch, trained=1), *VIT["num_hidden_layers"] * layer,
            linear(VIT_IMAGES, width, VIT["num_labels"])]


def cnn_blocks():
    """Yields the name, the input channels, the output channels and the stride of each residual block of the ResNet."""
    channels = CNN["channels"]
    for stage in range(CNN["stages"]):
        for index in range(CNN["blocks"]):
            outputs = CNN["channels"] << stage
            yield f"stages.{stage}.{index}", channels, outputs, 2 if stage and not index else 1
            channels = outputs


def cnn_products():
    side = CNN["image_size"] // 2
    products = [convolution(CNN_IMAGES, side, 3, CNN["channels"], 7, trained=1)]
    side //= 2  # the pooling
    for _, channels, outputs, stride in cnn_blocks():
        side //= stride
        products += [convolution(CNN_IMAGES, side, channels, outputs, 3), convolution(CNN_IMAGES, side, outputs, outputs, 3)]
        if channels != outputs:
            products.append(convolution(CNN_IMAGES, side, channels, outputs, 1))
    return products + [linear(CNN_IMAGES, outputs, CNN["num_labels"])]


# ---- Kerf's models and data ----------------------------------------------------------------------------------------------------------------

def write_config(config):
    """Returns a function that writes the configuration into a folder and returns the path of the file."""
    def write(folder):
        path = os.path.join(folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        return path
    return write


def write_cnn(folder):
    net = images.NetFromSeed()

    def unit(x, name, channels, outputs, kernel, stride):
        return net.norm(net.conv(x, f"{name}.conv", channels, outputs, kernel, stride, pads=[kernel // 2] * 4), f"{name}.norm", outputs, True)

    x = net.op("Relu", unit("images", "stem", 3, CNN["channels"], 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for name, channels, outputs, stride in cnn_blocks():
        y = net.op("Relu", unit(x, f"{name}.1", channels, outputs, 3, stride))
        y = unit(y, f"{name}.2", outputs, outputs, 3, 1)
        shortcut = x if channels == outputs else unit(x, f"{name}.shortcut", channels, outputs, 1, stride)
        x = net.op("Relu", net.op("Add", y, shortcut))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    logits = net.op("Gemm", x, net.weight("head.weight", [CNN["num_labels"], outputs]), net.weight("head.bias", [CNN["num_labels"]]), transB=1)
    path = os.path.join(folder, "cnn.onnx")
    with open(path, "wb") as file:
        file.write(net.model(logits, [CNN_IMAGES, 3, CNN["image_size"], CNN["image_size"]], CNN["num_labels"]))
    return path


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a model: its shape, and how many different integers it may contain. Without this number it contains pixels, floats."""
    shape: list
    integers: int = 0

    def array(self, batches, rnd):
        """Returns random batches as an array for write_npz."""
        count = batches
        for size in self.shape:
            count *= size
        shape = [batches, *self.shape]
        if self.integers:
            return "<i8", shape, struct.pack(f"<{count}q", *(rnd.randrange(self.integers) for _ in range(count)))
        return "<f4", shape, struct.pack(f"<{count}f", *(rnd.gauss(0, 1) for _ in range(count)))


def text_inputs(vocabulary):
    return {name: Input([TEXTS, SEQUENCE], vocabulary) for name in ("input_ids", "labels")}


def image_inputs(name, count, size, classes):
    return {name: Input([count, 3, size, size]), "labels": Input([count], classes)}


@dataclasses.dataclass(frozen=True)
class Model:
    torch_class: str  # the name of its class in training_torch.py; its forward takes the inputs in order and returns the loss
    inputs: dict  # name in Kerf's model -> Input, the labels last
    write: Callable  # writes the file that Kerf reads into a folder, and returns its path
    products: Callable  # returns the products of a forward
    kerf_options: tuple = ()  # sizes for Kerf that are not in the file

    def write_data(self, path, batches):
        rnd = random.Random(0)
        return write_npz(path, {name: each.array(batches, rnd) for name, each in self.inputs.items()})


TEXT_OPTIONS = ("--global-batch", str(TEXTS), "--sequence", str(SEQUENCE))
MODELS = {
    "gpt2": Model("Gpt2", text_inputs(GPT2["vocab_size"]), write_config(GPT2), gpt2_products, TEXT_OPTIONS),
    "llama": Model("Llama", text_inputs(LLAMA["vocab_size"]), write_config(LLAMA), llama_products, TEXT_OPTIONS),
    "vit": Model("Vit", image_inputs("pixel_values", VIT_IMAGES, VIT["image_size"], VIT["num_labels"]), write_config(VIT), vit_products,
                 ("--global-batch", str(VIT_IMAGES))),
    "cnn": Model("ResNet18", image_inputs("images", CNN_IMAGES, CNN["image_size"], CNN["num_labels"]), write_cnn, cnn_products),
}


# ---- Cases ---------------------------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Case:
    model: str  # key of MODELS
    dtype: str = "f32"  # f32 or bf16: Kerf's --dtype; with bf16 PyTorch runs under autocast
    ranks: int = 1  # with two ranks, each has one thread; one rank has two
    frozen: tuple = ()  # measures forwards only; patterns of the parameters that Kerf's training steps between them leave as they are

    def flops(self):
        """Returns the FLOPs of the products of a step, or of a forward."""
        products = MODELS[self.model].products()
        return sum(each.flops if self.frozen else each.step_flops() for each in products)

    def bytes(self, parameters):
        """Returns the least bytes that a step moves: weight, gradient and AdamW's two states in f32, each read and written; a forward reads the weights."""
        return parameters * 4 * (1 if self.frozen else 4 * 2)


CASES = {
    "gpt2": Case("gpt2"),
    "gpt2-ranks": Case("gpt2", ranks=2),
    "gpt2-bf16": Case("gpt2", dtype="bf16"),
    "gpt2-forward": Case("gpt2", frozen=("*.h.*", "*.wte.*", "*.wpe.*")),
    "llama": Case("llama"),
    "llama-bf16": Case("llama", dtype="bf16"),
    "vit": Case("vit"),
    "cnn": Case("cnn"),
    "cnn-bf16": Case("cnn", dtype="bf16"),
}
