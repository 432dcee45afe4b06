# SPDX-License-Identifier: Apache-2.0
"""Small modules, their losses and batches for the tests of kerf.torch.parallelize, all in float64."""
import contextlib
import math
import os
import sys

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, "examples", "gpt2", "model.onnx")


class Conv1D(torch.nn.Module):
    """A product with a weight of shape [in, out], as GPT-2 has it."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.nf = outputs
        self.weight = torch.nn.Parameter(torch.randn(inputs, outputs) * 0.1)
        self.bias = torch.nn.Parameter(torch.randn(outputs) * 0.02)

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(torch.nn.Module):
    fused = False  # whether one kernel computes attention

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, Conv1D(3 * width, width), Conv1D(width, width)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = (one.view(b, t, self.heads, -1).transpose(1, 2) for one in self.c_attn(x).split(e, dim=2))
        if self.fused:
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(out.transpose(1, 2).reshape(b, t, e))
        mask = torch.full((t, t), -1e30, dtype=x.dtype, device=x.device).triu(1)
        scores = (q @ k.transpose(2, 3) / math.sqrt(e // self.heads) + mask).softmax(-1)
        return self.c_proj((scores @ v).transpose(1, 2).reshape(b, t, e))


class Mlp(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(4 * width, width), Conv1D(width, 4 * width)

    def forward(self, x):
        return self.c_proj(torch.nn.functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = torch.nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = torch.nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(torch.nn.Module):
    """A GPT-2 of two layers with the parameters of examples/gpt2/model.onnx; the head is tied with the embedding."""

    def __init__(self, layers=2, width=64, heads=4, vocabulary=97, positions=64):
        super().__init__()
        self.transformer = torch.nn.Module()
        self.transformer.wte, self.transformer.wpe = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(positions, width)
        self.transformer.h = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.transformer.ln_f = torch.nn.LayerNorm(width)
        self.lm_head = torch.nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids, labels):
        at = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.transformer.wte(input_ids) + self.transformer.wpe(at)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))[:, :-1]
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))


class Mix(torch.nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.n1, self.n2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.t1, self.t2 = torch.nn.Linear(patches, 32), torch.nn.Linear(32, patches)
        self.c1, self.c2 = torch.nn.Linear(width, 64), torch.nn.Linear(64, width)

    def forward(self, x):
        x = x + self.t2(torch.nn.functional.gelu(self.t1(self.n1(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.c2(torch.nn.functional.gelu(self.c1(self.n2(x))))


class Mixer(torch.nn.Module):
    """An MLP-mixer: products over the patches and over the channels in turn."""

    def __init__(self, layers=2, patches=16, width=32):
        super().__init__()
        self.stem, self.head = torch.nn.Linear(48, width), torch.nn.Linear(width, 10)
        self.blocks = torch.nn.ModuleList(Mix(patches, width) for _ in range(layers))

    def forward(self, x, labels):
        x = self.stem(x)
        for one in self.blocks:
            x = one(x)
        return torch.nn.functional.cross_entropy(self.head(x.mean(1)), labels)


class Logits(torch.nn.Module):
    """A model of Transformers with a mean cross entropy in the model's own precision; `shift` predicts the next token."""

    def __init__(self, model, shift):
        super().__init__()
        self.__dict__.update(_model=model, _shift=shift)
        self._modules, self._parameters, self._buffers = model._modules, model._parameters, model._buffers

    def forward(self, labels, **batch):
        logits = self._model(**batch).logits
        if self._shift:
            logits, labels = logits[:, :-1], labels[:, 1:]
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


@contextlib.contextmanager
def all_in_double():
    """Makes the casts to float32 inside models of Transformers casts to float64, so that losses can be compared to 1e-10."""
    to, single, softmax = torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax

    def wide(value):
        return torch.float64 if value is torch.float32 else value

    torch.Tensor.to = lambda self, *a, **k: to(self, *map(wide, a), **{key: wide(one) for key, one in k.items()})
    torch.Tensor.float = torch.Tensor.double
    torch.nn.functional.softmax = lambda x, *a, **k: softmax(x, *a, **{key: wide(one) for key, one in k.items()})
    try:
        yield
    finally:
        torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax = to, single, softmax


def _transformers(name, layers):
    import transformers as hf

    small = {"num_hidden_layers": layers, "hidden_size": 64, "num_attention_heads": 4, "attn_implementation": "eager"}
    text = {**small, "vocab_size": 96, "max_position_embeddings": 64}
    if name == "llama":
        return Logits(hf.LlamaForCausalLM(hf.LlamaConfig(**text, num_key_value_heads=2, intermediate_size=176, use_cache=False)), True)
    if name in ("mixtral", "experts"):
        config = hf.MixtralConfig(**text, num_key_value_heads=2, intermediate_size=96, num_local_experts=4, use_cache=False, sliding_window=None,
                                  experts_implementation="batched_mm")
        return Logits(hf.MixtralForCausalLM(config), True)
    if name == "bert":
        none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return Logits(hf.BertForMaskedLM(hf.BertConfig(**text, **none, intermediate_size=128)), False)
    if name == "vit":
        none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = hf.ViTConfig(**small, **none, intermediate_size=128, image_size=32, patch_size=8, num_labels=10)
        return Logits(hf.ViTForImageClassification(config), False)
    config = hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic", num_labels=10)
    return Logits(hf.ResNetForImageClassification(config), False).eval()


def make(name, layers=2):
    """Returns a module in float64 and four global batches of it, the same in every process."""
    torch.manual_seed(7)
    model = Gpt(layers) if name in ("gpt2", "masked", "fused") else Mixer(layers) if name == "mixer" else _transformers(name, layers)
    for one in model.modules():
        if isinstance(one, Attention):
            one.fused = name == "fused"
    random = torch.Generator().manual_seed(11)
    batches = []
    for _ in range(4):
        tokens = torch.randint(96, (8, 32), generator=random)
        if name == "mixer":
            batch = {"x": torch.randn(8, 16, 48, generator=random), "labels": tokens[:, 0] % 10}
        elif name in ("vit", "resnet"):
            batch = {"pixel_values": torch.randn(8, 3, 32, 32, generator=random), "labels": tokens[:, 0] % 10}
        else:
            batch = {"input_ids": tokens, "labels": tokens.clone()}
        if name == "masked":  # GPT-2 with another number of labels in each sample
            for sample in range(8):
                batch["labels"][sample, :3 * sample] = -100
        batches.append(batch)
    return model, batches


def export(name, layers, folder):
    """Exports a module to ONNX, or the configuration of a mixture whose experts are spread, and returns the path."""
    if name in ("gpt2", "masked", "fused") and layers == 2:
        return EXAMPLE
    model, batches = make(name, layers)
    if name == "experts":
        path = os.path.join(folder, "config.json")
        model._model.config.to_json_file(path)
        return path
    sys.path.insert(0, os.path.join(ROOT, "examples", "gpt2"))
    import export as example

    path = os.path.join(folder, f"{name}{layers}.onnx")
    example.export(model, batches[0], path)
    return path


def double(batch):
    """Returns a batch whose real numbers are float64."""
    return {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}
