# SPDX-License-Identifier: Apache-2.0
"""Turns a row of published runs into what kerf takes: a config.json, a plan.json, a cluster file and options."""
import json
import math
import os
import re

from conventions import FOLDER, CannotExpress, pairs_of

ROOT = os.path.dirname(os.path.dirname(FOLDER))


def number(row, key, default=None):
    text = (row.get(key) or "").strip()
    try:
        return float(text)
    except ValueError:
        return default


def whole(row, key, default=None):
    value = number(row, key)
    return default if value is None else int(round(value))


# The known device whose curves stand in for a device's own, as if Kerf did not know it.
STAND_IN = {"A100": "H100", "H100": "A100", "B200": "H100", "V100": "A100", "T4": "V100"}


def cluster_of(row, convention, ranks, folder, index, changes, unknown_device=False):
    """Returns the path of the row's cluster file. A cluster that is too small gets more nodes of the same kind, in a file of its own for
    the row `index`, because rows are predicted side by side. `changes` are pairs of a key ("levels.0.bandwidth", "curves.sustained") and the
    value that it gets. With `unknown_device`, the device has the curves of another one, and its own peak rates."""
    name = convention["cluster"]
    if not name:
        raise CannotExpress(f"no cluster file for '{row.get('hardware')}'")
    path = os.path.join(ROOT, "clusters", name + ".json")
    with open(path) as file:
        cluster = json.load(file)
    size = math.prod(level["size"] for level in cluster["levels"])
    if size >= ranks and not changes and not unknown_device:
        return path
    if unknown_device:
        cluster["device"]["name"] = next(other for known, other in STAND_IN.items() if cluster["device"]["name"].startswith(known))
        cluster["device"].pop("curves", None)
    last = cluster["levels"][-1]
    if size < ranks:
        last["size"] = math.ceil(ranks / (size // last["size"]))
        cluster.pop("ranks", None)
    for key, value in changes:
        words = key.split(".")
        if words[0] == "levels":
            cluster["levels"][int(words[1])][words[2]] = float(value)
        else:
            cluster["device"].setdefault("curves", {})[words[1]] = float(value)
    changed = os.path.join(folder, f"{index}-{name}.json")
    with open(changed, "w") as file:
        json.dump(cluster, file)
    return changed


def guessed_heads(hidden):
    """Guesses a number of heads that was not published: heads of 128 elements, or the next larger size that divides the width."""
    return next(hidden // size for size in range(128, hidden + 1) if hidden % size == 0)


def config_of(row, convention):
    arch = (row.get("arch") or "").lower()
    for known in ("vit", "resnet", "hybrid", "mamba", "nemotron"):
        if known in arch:
            raise CannotExpress(f"architecture '{row.get('arch')}'")
    layers, hidden, sequence = whole(row, "layers"), whole(row, "hidden"), whole(row, "seq")
    for key, value in (("layers", layers), ("hidden", hidden), ("seq", sequence)):
        if not value:
            raise CannotExpress(f"'{key}' was not published")
    heads = whole(row, "heads") or guessed_heads(hidden)
    groups = whole(row, "kv_heads", heads) or heads
    vocabulary = whole(row, "vocab", 51200) or 51200
    inner = whole(row, "ffn") or 4 * hidden
    experts = whole(row, "experts", 0) or 0
    gated = re.search(r"llama|mi[sx]tral|qwen|swiglu|gated", arch)
    common = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": inner,
              "vocab_size": vocabulary, "max_position_embeddings": sequence}
    if experts > 1 and row.get("mla") == "yes":  # Megatron Core's multi-latent attention; the first layer has no experts
        return {"model_type": "deepseek_v3", **common, "num_key_value_heads": heads, "moe_intermediate_size": whole(row, "expert_ffn", inner),
                "n_routed_experts": experts, "num_experts_per_tok": whole(row, "topk", 2) or 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
                "n_group": 4, "topk_group": 2, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                "v_head_dim": 128}
    if experts > 1 and not gated:
        raise CannotExpress("mixture of experts without a gated MLP")
    if experts > 1:
        return {"model_type": "mixtral", **common, "num_key_value_heads": groups, "num_local_experts": experts,
                "num_experts_per_tok": whole(row, "topk", 2) or 2}
    if gated:
        return {"model_type": "llama", **common, "num_key_value_heads": groups, "tie_word_embeddings": False}
    dropped = 0.1 if convention["dropout"] == "yes" else 0.0
    if "bert" in arch:
        return {"model_type": "bert", **common, "hidden_dropout_prob": dropped, "attention_probs_dropout_prob": dropped}
    if "t5" in arch:
        return {"model_type": "t5", "num_layers": layers, "d_model": hidden, "num_heads": heads, "d_kv": hidden // heads, "d_ff": inner,
                "vocab_size": vocabulary, "n_positions": sequence, "dropout_rate": dropped}
    if groups != heads:  # grouped queries; an MLP with a gate and 2/3 of the width has the same work and activations as one without
        return {"model_type": "llama", **common, "intermediate_size": 2 * inner // 3, "num_key_value_heads": groups, "tie_word_embeddings": False}
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_inner": inner,
            "vocab_size": vocabulary, "n_positions": sequence, "attn_pdrop": dropped, "resid_pdrop": dropped, "embd_pdrop": dropped}


def guessed_microbatch(row, batch):
    """Guesses a microbatch that was not published, from the width of the model (SC21's tables have 16 down to 1)."""
    hidden = whole(row, "hidden")
    if hidden <= 4096:
        return 16
    if hidden <= 6144:
        return 8
    if hidden <= 8192:
        return 4
    return 2 if hidden <= 12288 and batch < 2400 and whole(row, "layers") < 96 else 1


def stages_of(layers, stages, chunks, ends):
    """Returns the layers of the parts of a pipeline by the rule `ends` of conventions.csv.

    embedding: the embedding and the head count as a layer each. filled: every stage gets the rounded-up share, and the last one what is
    left (DeepSpeed's partition by type of layer)."""
    if ends == "embedding":
        parts = stages * chunks
        each, left = divmod(layers + 2, parts)
        counts = [each + (part < left) - (part in (0, parts - 1)) for part in range(parts)]
    else:
        each = math.ceil(layers / stages)
        counts = [max(0, min(each, layers - each * stage)) for stage in range(stages)]
    begin, result = 0, []
    for count in counts:
        result.append({"layers": [begin, begin + count - 1] if count else []})
        begin += count
    return result


# TorchTitan's selective recomputation by operators keeps attention and every second product of a llama layer.
KEPT_OPS = ["model.layers.*.self_attn/attention*"] + [f"model.layers.*.{name}/linear*" for name in (
    "self_attn.q_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.down_proj")]


def plan_of(row, convention):
    model, stages = whole(row, "tp", 1) or 1, whole(row, "pp", 1) or 1
    context, expert = whole(row, "cp", 1) or 1, whole(row, "ep", 1) or 1
    gpus = whole(row, "gpus")
    data = whole(row, "dp") or (gpus // (model * stages * context) if gpus else None)
    if not data:
        raise CannotExpress("neither 'dp' nor 'gpus' was published")
    if data % expert != 0:
        raise CannotExpress(f"{expert} expert ranks among {data} data ranks")
    batch, micro, times = whole(row, "gbs"), whole(row, "mbs"), whole(row, "grad_accum")
    if not batch and micro and times:
        batch = micro * times * data
    if not batch:
        raise CannotExpress("'gbs' was not published")
    if not micro and times and batch >= times * data:
        micro = round(batch / (times * data))
    if not micro:
        micro = guessed_microbatch(row, batch)
    micro = max(1, min(micro, batch // data))
    microbatches = max(1, round(batch / (data * micro)))
    layers = whole(row, "layers")
    # Megatron-LM counts expert ranks as data ranks.
    mesh = {"stage": stages, "data": data // expert, "context": context, "expert": expert, "model": model}
    plan = {"kerf": 1, "mesh": mesh, "global_batch": microbatches * data * micro, "microbatch": micro}
    recompute = (row.get("recompute") or "").lower()
    per_layer = re.search("full|per-layer", recompute)
    plan["recompute"] = "selective" if "selective" in recompute else "full" if per_layer else "none"
    if "selective(op)" in recompute:
        plan["recompute"], plan["ops"] = "full", {pattern: {"recompute": False} for pattern in KEPT_OPS}
    plan["sequence_parallel"] = (row.get("sp") or "").lower() in ("yes", "1") and model > 1
    zero = (row.get("zero") or "").lower()
    plan["optimizer_sharding"] = 1 if "distributed" in zero else whole(row, "zero", 0) or 0
    if convention["overlap"]:  # unless it is the trainer's default
        plan["overlap"] = [word for word in convention["overlap"].split() if word != "none"]
    plan["attention"] = "fused" if context > 1 else convention["attention"]
    schedule = (row.get("schedule") or "").lower()
    if stages > 1:
        most = "max" in (row.get("vp") or "")
        chunks = (layers + 2) // stages if most else max(1, whole(row, "vp", 1) or 1)
        if "zb" in schedule or "zero bubble" in schedule:
            variant = "2p" if "2p" in schedule else "1p" if "1p" in schedule else "h1"
            plan["schedule"] = {"name": "zero-bubble", "variant": variant}
        elif chunks > 1:
            plan["schedule"] = {"name": "interleaved", "chunks": chunks}
        elif "interleaved" in schedule:
            plan["schedule"] = {"name": "interleaved", "chunks": 2}
        else:
            plan["schedule"] = {"name": "gpipe" if "gpipe" in schedule else "1f1b"}
        if convention["ends"]:
            plan["stages"] = stages_of(layers, stages, chunks if most else 1, convention["ends"])
    return plan


def dtype_of(row):
    text = (row.get("dtype") or "").lower()
    return "f8" if "fp8" in text or "f8" in text else "bf16" if "bf16" in text else "f32" if "fp32" in text else "f16"


# The decisions of a plan that kerf plan prints, without what it says about them.
PLAN_KEYS = ("kerf", "mesh", "order", "global_batch", "microbatch", "schedule", "stages", "recompute", "optimizer_sharding",
             "optimizer_sharding_ranks", "sequence_parallel", "layout", "overlap", "gradient_dtype", "attention", "context_style", "ops")


class Run:
    """A row as files in `folder`; `index` makes their names distinct. With `blind`, nothing is used that was fitted to rows of the row's
    system: the trainer and the constants of the column `blind` of conventions.csv take the place of the fitted ones. With `unknown_device`,
    nothing is used that was fitted to the row's device."""

    def __init__(self, row, convention, folder, index, blind=False, unknown_device=False):
        changes = dict(pairs_of(convention["blind"])) if blind else {}
        self.trainer = changes.pop("trainer", convention["trainer"])
        self.row, self.convention = row, convention
        self.plan, self.config, self.dtype = plan_of(row, convention), config_of(row, convention), dtype_of(row)
        if self.dtype != "f32":
            self.plan["gradient_dtype"] = convention["gradient_dtype"]
        self.ranks = math.prod(self.plan["mesh"].values())
        self.cluster = cluster_of(row, convention, self.ranks, folder, index, list(changes.items()), unknown_device)
        self.paths = {}
        for name, value in (("config", self.config), ("plan", self.plan)):
            self.paths[name] = os.path.join(folder, f"{index}-{name}.json")
            with open(self.paths[name], "w") as file:
                json.dump(value, file)

    def published_mesh(self):
        """Returns the axes of the mesh that were published."""
        mesh = {"context": 1, "expert": 1}
        for axis, column in (("stage", "pp"), ("model", "tp"), ("data", "dp")):
            if whole(self.row, column):
                mesh[axis] = self.plan["mesh"][axis]
        return mesh

    def lacks_a_plan(self):
        """Returns whether the row does not say which plan its system found, so that one has to be searched for."""
        return self.convention["search"] == "yes" and not (whole(self.row, "mbs") or whole(self.row, "grad_accum"))

    def other_microbatches(self):
        """Returns files with plans of twice and half the microbatch, if the row does not say which it was; else none."""
        if whole(self.row, "mbs") or whole(self.row, "grad_accum"):
            return []
        paths = []
        for name, micro in (("twice", 2 * self.plan["microbatch"]), ("half", self.plan["microbatch"] // 2)):
            data = self.plan["mesh"].get("data", 1) * self.plan["mesh"].get("expert", 1)
            if micro and self.plan["global_batch"] % (data * micro) == 0:
                paths.append(self.paths["plan"].replace("-plan.json", f"-{name}.json"))
                with open(paths[-1], "w") as file:
                    json.dump({key: value for key, value in {**self.plan, "microbatch": micro}.items() if key in PLAN_KEYS}, file)
        return paths

    def use(self, plan):
        """Takes a plan found by kerf plan in the place of the row's."""
        self.plan = plan
        with open(self.paths["plan"], "w") as file:
            json.dump({key: value for key, value in plan.items() if key in PLAN_KEYS}, file)

    def command(self, kerf, verb, *more):
        return [kerf, verb, self.paths["config"], "--for", self.trainer, "--cluster", self.cluster, "--ranks", str(self.ranks),
                "--dtype", self.dtype, "--optimizer", "adamw", "--sequence", str(whole(self.row, "seq")), "--json", *more]
