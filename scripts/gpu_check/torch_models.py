# SPDX-License-Identifier: Apache-2.0
"""The models of the benchmarks in PyTorch, with the structure that the packages have. Each returns the loss of a batch."""
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads, causal, bias=True, rotary=0):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        if rotary:
            half = width // heads // 2
            angles = torch.outer(torch.arange(rotary).float(), 10000.0 ** (-torch.arange(half).float() / half))
            self.register_buffer("cosine", torch.cat([angles.cos()] * 2, -1), persistent=False)
            self.register_buffer("sine", torch.cat([angles.sin()] * 2, -1), persistent=False)
        self.rotary = rotary

    def turn(self, x):
        length = x.shape[2]
        first, second = x.chunk(2, -1)
        return (x * self.cosine[:length] + torch.cat([-second, first], -1) * self.sine[:length]).to(x.dtype)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (y.view(batch, length, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(width, dim=2))
        if self.rotary:
            q, k = self.turn(q), self.turn(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A layer of GPT-2 or ViT."""

    def __init__(self, width, inner, heads, causal, epsilon, gelu):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attention, self.gelu = Attention(width, heads, causal), gelu
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate=self.gelu))


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner, epsilon = config["hidden_size"], config["intermediate_size"], config["rms_norm_eps"]
        self.norm1, self.norm2 = nn.RMSNorm(width, epsilon), nn.RMSNorm(width, epsilon)
        self.attention = Attention(width, config["num_attention_heads"], True, False, config["max_position_embeddings"])
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((width, inner), (width, inner), (inner, width)))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def shifted_loss(logits, labels):
    """Each token predicts the next, as in Hugging Face's models for causal language modelling."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.tokens, self.places = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, 4 * width, config["n_head"], True, 1e-5, "tanh") for _ in range(config["n_layer"]))
        self.norm = nn.LayerNorm(width)
        for weight in (self.tokens.weight, self.places.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids) + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))
        for block in self.blocks:
            x = block(x)
        return shifted_loss(functional.linear(self.norm(x), self.tokens.weight), labels)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.tokens, self.head = nn.Embedding(config["vocab_size"], width), nn.Linear(width, config["vocab_size"], bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(width, config["rms_norm_eps"])
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids)
        for block in self.blocks:
            x = block(x)
        return shifted_loss(self.head(self.norm(x)), labels)


class Vit(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, patch = config["hidden_size"], config["patch_size"]
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (config["image_size"] // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, config["intermediate_size"], config["num_attention_heads"], False, 1e-12, "none")
                                    for _ in range(config["num_hidden_layers"]))
        self.norm, self.head = nn.LayerNorm(width, 1e-12), nn.Linear(width, config["num_labels"])

    def forward(self, pixel_values, labels):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1).to(x.dtype), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)[:, 0]).float(), labels)


def unit(channels, outputs, size, stride=1):
    return nn.Sequential(nn.Conv2d(channels, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, channels, width, outputs, stride, first):
        super().__init__()
        self.one, self.two, self.three = unit(channels, width, 1), unit(width, width, 3, stride), unit(width, outputs, 1)
        self.shortcut = unit(channels, outputs, 1, stride) if first else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.two(functional.relu(self.one(x))))
        return functional.relu(self.three(y) + self.shortcut(x))


class Resnet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.stem, channels, blocks = unit(3, 64, 7, 2), 64, []
        for stage, count in enumerate(config["blocks"]):
            for index in range(count):
                blocks.append(Bottleneck(channels, 64 << stage, 256 << stage, 2 if stage and not index else 1, not index))
                channels = 256 << stage
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, config["num_labels"])

    def forward(self, images, labels):
        x = functional.max_pool2d(functional.relu(self.stem(images)), 3, 2, 1)
        return functional.cross_entropy(self.head(self.blocks(x).mean((2, 3))).float(), labels)


KINDS = {"gpt2": Gpt2, "llama": Llama, "vit": Vit, "resnet": Resnet}
