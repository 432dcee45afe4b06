#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of this folder: model.onnx, batches.npz and golden.json.

A two-layer GPT-2 of Hugging Face's Transformers with random weights (fixed seed, nothing is downloaded) is exported by PyTorch's own
exporter, and PyTorch itself trains it for 20 steps, in float32 and in float64, with SGD and with AdamW: the losses that Kerf has to give.

Needs: pip install torch transformers onnx onnxscript numpy
Use:   python3 examples/gpt2/export.py
"""
import json
import os

import numpy as np
import onnx
import onnxscript
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 20260101
STEPS, BATCH, SEQUENCE, VOCABULARY = 20, 8, 32, 97
OPSET = 20
SGD = {"lr": 0.1, "momentum": 0.9}
ADAMW = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}


class Loss(torch.nn.Module):
    """GPT-2 with the loss as its first output. Exporters name parameters by module path, so the model's own modules are adopted."""

    def __init__(self, model):
        super().__init__()
        self.transformer, self.lm_head = model.transformer, model.lm_head

    def forward(self, input_ids, labels):
        hidden = self.transformer(input_ids=input_ids, use_cache=False).last_hidden_state
        logits = self.lm_head(hidden)
        # Position t predicts token t + 1; the last one predicts nothing.
        shifted = torch.nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), shifted.reshape(-1), ignore_index=-100)
        return loss, logits


def make_model():
    torch.manual_seed(SEED)
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, n_positions=64, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    model = Loss(transformers.GPT2LMHeadModel(config)).eval()
    with torch.no_grad():
        # Fresh norms are all ones and fresh biases all zeros; equal tensors would hide a mix-up of two of them.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.02 * torch.randn(parameter.shape))
    return model


def make_batches():
    """Text of a language in which each token has one usual successor (4 times of 5)."""
    random = np.random.default_rng(SEED)
    successor = random.permutation(VOCABULARY)
    tokens = np.empty((STEPS, BATCH, SEQUENCE), np.int64)
    tokens[..., 0] = random.integers(VOCABULARY, size=(STEPS, BATCH))
    for t in range(1, SEQUENCE):
        usual = random.random((STEPS, BATCH)) < 0.8
        tokens[..., t] = np.where(usual, successor[tokens[..., t - 1]], random.integers(VOCABULARY, size=(STEPS, BATCH)))
    return {"input_ids": tokens, "labels": tokens.copy()}


def export(model, batch, path):
    program = torch.onnx.export(model, (), kwargs=batch, dynamo=True, opset_version=OPSET, optimize=False,
                                output_names=["loss", "logits"])
    # The exporter's optimizer folds whatever has a value; what is to be trained must not have one while it works.
    initializers = program.model.graph.initializers
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]  # a tied weight is held under one of its names
    held = {name: initializers[name].const_value for name in names if name in initializers}
    for name in held:
        initializers[name].const_value = None
    program.optimize()
    for name, value in held.items():
        program.model.graph.initializers[name].const_value = value
    for node in program.model.graph:
        # Stack traces name files of the machine that exported.
        for key in [key for key in node.metadata_props if "stack_trace" in key]:
            del node.metadata_props[key]
    program.save(path)
    return sorted(held)


def norm(tensor):
    return float(torch.linalg.vector_norm(tensor.double()))


def train(model, batches, optimizer_of):
    optimizer = optimizer_of(model.parameters())
    losses, norms = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, _ = model(**{name: torch.from_numpy(array[step]) for name, array in batches.items()})
        loss.backward()
        if step == 0:
            norms = {name: norm(parameter.grad) for name, parameter in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=SGD["lr"], momentum=SGD["momentum"])


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"],
                             weight_decay=ADAMW["weight_decay"])


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    batches = make_batches()
    np.savez(os.path.join(HERE, "batches.npz"), **batches)
    first = {name: torch.from_numpy(array[0]) for name, array in batches.items()}
    initializers = export(make_model(), first, os.path.join(HERE, "model.onnx"))

    golden = {
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__, "onnx": onnx.__version__,
                      "onnxscript": onnxscript.__version__, "opset": OPSET},
        "inputs": {name: {"dtype": str(array.dtype), "shape": list(array.shape[1:])} for name, array in batches.items()},
        "steps": STEPS,
        "parameters": initializers,
        "optimizers": {"sgd": SGD, "adamw": ADAMW},
        "losses": {},
    }
    for name, optimizer_of in (("sgd", sgd), ("adamw", adamw)):
        single, _ = train(make_model(), batches, optimizer_of)
        double, norms = train(make_model().double(), batches, optimizer_of)
        golden["losses"][name] = {"float32": single, "float64": double}
    # A tied parameter has several names; the graph uses one of them.
    tied = {"transformer.wte.weight": "lm_head.weight"}
    golden["gradient_l2_step0_float64"] = {name if name in initializers else tied[name]: value for name, value in norms.items()}
    with open(os.path.join(HERE, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
