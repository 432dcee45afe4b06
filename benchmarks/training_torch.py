# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of training.py: the modules of training_models.py, and the process that trains one of them and prints a line for each step."""
import contextlib
import json
import time

import torch
import training_models as models
from torch import nn
from torch.nn import functional

LR, DECAY = 1e-4, 0.01


class Block(nn.Module):
    """A layer of GPT-2 or ViT."""

    def __init__(self, width, heads, hidden, causal, approximate, epsilon):
        super().__init__()
        self.heads, self.causal, self.approximate = heads, causal, approximate
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (y.view(b, s, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(d, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate=self.approximate))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        sizes, width = models.GPT2, models.GPT2["n_embd"]
        self.tokens, self.places = nn.Embedding(sizes["vocab_size"], width), nn.Embedding(sizes["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, sizes["n_head"], 4 * width, True, "tanh", 1e-5) for _ in range(sizes["n_layer"]))
        self.norm = nn.LayerNorm(width)
        for weight in (self.tokens.weight, self.places.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups, hidden, epsilon):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, epsilon), nn.RMSNorm(width, epsilon)
        self.queries, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.keys, self.values = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosines, sines):
        b, s, d = x.shape

        def rotated(y):
            first, second = y.chunk(2, dim=-1)
            return y * cosines + torch.cat((-second, first), dim=-1) * sines

        y = self.norm1(x)
        q = rotated(self.queries(y).view(b, s, self.heads, self.size).transpose(1, 2))
        k = rotated(self.keys(y).view(b, s, self.groups, self.size).transpose(1, 2))
        v = self.values(y).view(b, s, self.groups, self.size).transpose(1, 2)
        k, v = (z.repeat_interleave(self.heads // self.groups, dim=1) for z in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        sizes, width = models.LLAMA, models.LLAMA["hidden_size"]
        self.tokens = nn.Embedding(sizes["vocab_size"], width)
        self.blocks = nn.ModuleList(LlamaBlock(width, sizes["num_attention_heads"], sizes["num_key_value_heads"], sizes["intermediate_size"],
                                               sizes["rms_norm_eps"]) for _ in range(sizes["num_hidden_layers"]))
        self.norm, self.head = nn.RMSNorm(width, sizes["rms_norm_eps"]), nn.Linear(width, sizes["vocab_size"], bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        size = width // sizes["num_attention_heads"]
        frequencies = sizes["rope_theta"] ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(models.SEQUENCE), frequencies).repeat(1, 2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        # The tables have the type of the projections, so that autocast's bf16 stays bf16.
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        cosines, sines = self.cosines.to(dtype), self.sines.to(dtype)
        for block in self.blocks:
            x = block(x, cosines, sines)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        sizes, width, patch = models.VIT, models.VIT["hidden_size"], models.VIT["patch_size"]
        self.patches = nn.Conv2d(sizes["num_channels"], width, patch, patch)
        self.start = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (sizes["image_size"] // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, sizes["num_attention_heads"], sizes["intermediate_size"], False, "none", sizes["layer_norm_eps"])
                                      for _ in range(sizes["num_hidden_layers"])))
        self.norm, self.head = nn.LayerNorm(width, sizes["layer_norm_eps"]), nn.Linear(width, sizes["num_labels"])

    def forward(self, pixels, labels):
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        x = torch.cat((self.start.expand(len(x), -1, -1), x), dim=1) + self.places
        return functional.cross_entropy(self.head(self.norm(self.blocks(x))[:, 0]), labels)


def unit(channels, outputs, kernel, stride):
    # The settings of batch normalization are those of test/e2e/images.py, where the new value has the weight 0.25.
    return nn.Sequential(nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.25))


class Residual(nn.Module):
    def __init__(self, channels, outputs, stride):
        super().__init__()
        self.first, self.second = unit(channels, outputs, 3, stride), unit(outputs, outputs, 3, 1)
        self.shortcut = unit(channels, outputs, 1, stride) if channels != outputs else nn.Identity()

    def forward(self, x):
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [Residual(channels, outputs, stride) for _, channels, outputs, stride in models.cnn_blocks()]
        self.body = nn.Sequential(unit(3, models.CNN["channels"], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks)
        self.head = nn.Linear(models.CNN["channels"] << (models.CNN["stages"] - 1), models.CNN["num_labels"])

    def forward(self, pixels, labels):
        return functional.cross_entropy(self.head(self.body(pixels).mean((2, 3))), labels)


def random_input(each, ranks):
    shape = [each.shape[0] // ranks, *each.shape[1:]]
    return torch.randint(each.integers, shape) if each.integers else torch.randn(shape)


def work(case, mode, rank, rendezvous, steps):
    """Runs one rank. Rank 0 prints the number of parameters, and then the seconds of each step or forward."""
    torch.set_num_threads(2 // case.ranks)
    torch.manual_seed(0)
    record = models.MODELS[case.model]
    model = globals()[record.torch_class]()

    def say(**values):
        if rank == 0:
            print(json.dumps(values), flush=True)

    say(parameters=sum(each.numel() for each in model.parameters()))
    call = model
    if case.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=case.ranks)
        call = nn.parallel.DistributedDataParallel(model)
    if mode == "compile":
        call = torch.compile(call)
    batch = [random_input(each, case.ranks) for each in record.inputs.values()]

    def autocast():
        return torch.autocast("cpu", torch.bfloat16) if case.dtype == "bf16" else contextlib.nullcontext()

    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY, fused=True)

    def train():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = call(*batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    def forward():
        with torch.no_grad(), autocast():
            return call(*batch).item()

    run = forward if case.frozen else train
    for _ in range(steps):
        start = time.perf_counter()
        run()
        say(seconds=time.perf_counter() - start)
