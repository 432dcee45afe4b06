# SPDX-License-Identifier: Apache-2.0
"""Small models of the kinds that users train, each with a function that makes batches and, where the module returns no loss, the loss."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

VOCABULARY = 97


class InDouble(TorchFunctionMode):
    """Computes in float64 where a module says float32, as Kerf does in a step of f64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            return args[0].double()
        change = lambda value: torch.float64 if value is torch.float32 else value  # noqa: E731
        return function(*map(change, args), **{key: change(value) for key, value in (kwargs or {}).items()})


def tokens(model):
    ids = torch.randint(1, VOCABULARY, (4, 16))
    return {"input_ids": ids, "labels": ids}


def images(model):
    return {"pixel_values": torch.randn(4, 3, 16, 16, dtype=next(model.parameters()).dtype), "labels": torch.randint(5, (4,))}


def gpt2(dropout=0.0):
    """Fused products of queries, keys and values, Conv1D, and a table that is tied to the head."""
    import transformers
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=2, n_embd=32, n_head=4, n_positions=32, vocab_size=VOCABULARY, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager"))


def llama():
    import transformers
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY,
        max_position_embeddings=64))


def bert():
    import transformers
    return transformers.BertForMaskedLM(transformers.BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64, vocab_size=VOCABULARY, max_position_embeddings=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def masked(model):
    """Sentences of different lengths, padded with the token 0, whose row of the table is not trained by look-ups."""
    mask = (torch.arange(16)[None, :] < torch.tensor([16, 12, 9, 16])[:, None]).long()
    ids = mask * tokens(model)["input_ids"]
    return {"input_ids": ids, "labels": torch.where(mask > 0, ids, -100), "attention_mask": mask}


def vit():
    import transformers
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4, num_labels=5,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def mixtral():
    import transformers
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        num_hidden_layers=2, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY,
        max_position_embeddings=64, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True, attn_implementation="eager",
        experts_implementation="batched_mm"))


def resnet():
    import transformers
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5)).eval()


class Block(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.tokens = nn.Sequential(nn.Linear(tokens, 20), nn.GELU(), nn.Linear(20, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))

    def forward(self, x):
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class Mixer(nn.Module):
    """An MLP-mixer, as a user writes it: it returns class scores."""

    def __init__(self, tokens=9, width=16, classes=5):
        super().__init__()
        self.stem, self.blocks = nn.Linear(12, width), nn.ModuleList(Block(tokens, width) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def mixed(model):
    return torch.randn(4, 9, 12, dtype=model.head.weight.dtype), torch.randint(5, (4,))


def mixer_loss(model, x, classes):
    return F.cross_entropy(model(x), classes)


MODELS = {"gpt2": (gpt2, tokens, None), "llama": (llama, tokens, None), "bert": (bert, masked, None), "vit": (vit, images, None),
          "mixtral": (mixtral, tokens, None), "resnet": (resnet, images, None), "mixer": (Mixer, mixed, mixer_loss)}
