#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts every row of a CSV of published training runs with `kerf simulate` and prints the errors of the predictions.

    benchmarks/published/predict.py runs.csv [--kerf build/bin/kerf] [--jobs 2] [--rows out.csv] [--only TEXT] [--quick]

Each row becomes a config.json, a plan.json, a cluster file of clusters/ and options. The measured results of a row are read only
to compare them. Facts that the columns do not contain (who ran it, on which cluster, what overlapped) are in conventions.csv in
this folder, by the row's id. Rows that decided a constant or a mechanism of the cost model are reported separately, and rows that
cannot be expressed are listed with the reason. README.md in this folder explains the columns.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GIB = 2.0**30


class CannotExpress(Exception):
    pass


def number(row, key, default=None):
    text = (row.get(key) or "").strip()
    try:
        return float(text)
    except ValueError:
        return default


def whole(row, key, default=None):
    value = number(row, key)
    return default if value is None else int(round(value))


def ids_of(words):
    """Expands "a#1-3 b#7 c/d" to a#1, a#2, a#3, b#7, c/d."""
    for word in words.split():
        runs = re.fullmatch(r"(.*#)(\d+)-(\d+)", word)
        if runs:
            yield from (f"{runs[1]}{number}" for number in range(int(runs[2]), int(runs[3]) + 1))
        else:
            yield word


def read_conventions():
    """Returns a dictionary from the id of a row to its line of conventions.csv."""
    lines = {}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "conventions.csv"), newline="") as file:
        for line in csv.DictReader(file):
            for name in ids_of(line["rows"]):
                if name in lines:
                    sys.exit(f"conventions.csv has two lines of the row {name}")
                lines[name] = line
    return lines


CONVENTIONS = read_conventions()


def conventions(row):
    line = CONVENTIONS.get(row.get("id"))
    if not line:
        raise CannotExpress("conventions.csv has no line for this row")
    return line


def cluster_of(row, ranks, folder):
    name = conventions(row)["cluster"]
    if not name:
        raise CannotExpress(f"no cluster file for '{row.get('hardware')}'")
    path = os.path.join(ROOT, "clusters", name + ".json")
    with open(path) as file:
        cluster = json.load(file)
    size = math.prod(level["size"] for level in cluster["levels"])
    if size >= ranks:
        return path
    # Add nodes of the same kind.
    last = cluster["levels"][-1]
    last["size"] = math.ceil(ranks / (size // last["size"]))
    cluster.pop("ranks", None)
    larger = os.path.join(folder, f"{name}-{ranks}.json")
    with open(larger, "w") as file:
        json.dump(cluster, file)
    return larger


def config_of(row, convention):
    layers, hidden, heads = whole(row, "layers"), whole(row, "hidden"), whole(row, "heads")
    sequence = whole(row, "seq")
    for key, value in (("layers", layers), ("hidden", hidden), ("heads", heads), ("seq", sequence)):
        if not value:
            raise CannotExpress(f"'{key}' was not published")
    arch = (row.get("arch") or "").lower()
    groups = whole(row, "kv_heads", heads) or heads
    vocabulary = whole(row, "vocab", 51200) or 51200
    inner = whole(row, "ffn")
    experts = whole(row, "experts", 0) or 0
    gated = re.search(r"llama|mi[sx]tral|qwen|swiglu|gated", arch)
    if experts > 1 and not gated:
        raise CannotExpress("mixture of experts without a gated MLP")
    if experts > 1:
        return {"model_type": "mixtral", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                "num_key_value_heads": groups, "intermediate_size": inner or 4 * hidden, "vocab_size": vocabulary,
                "max_position_embeddings": sequence, "num_local_experts": experts, "num_experts_per_tok": whole(row, "topk", 2) or 2}
    if gated:
        return {"model_type": "llama", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                "num_key_value_heads": groups, "intermediate_size": inner or 4 * hidden, "vocab_size": vocabulary,
                "max_position_embeddings": sequence, "tie_word_embeddings": False}
    if "bert" in arch:
        return {"model_type": "bert", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                "intermediate_size": inner or 4 * hidden, "vocab_size": vocabulary, "max_position_embeddings": sequence}
    if re.search(r"t5|vit|resnet", arch):
        raise CannotExpress(f"architecture '{row.get('arch')}'")
    if groups != heads:
        raise CannotExpress(f"{groups} key/value heads of {heads} without a gated MLP")
    dropped = 0.1 if convention["dropout"] == "yes" else 0.0
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_inner": inner or 4 * hidden,
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


def plan_of(row, convention):
    model, stages = whole(row, "tp", 1) or 1, whole(row, "pp", 1) or 1
    context, expert = whole(row, "cp", 1) or 1, whole(row, "ep", 1) or 1
    gpus = whole(row, "gpus")
    data = whole(row, "dp") or (gpus // (model * stages * context) if gpus else None)
    if not data:
        raise CannotExpress("neither 'dp' nor 'gpus' was published")
    if data % expert != 0:
        raise CannotExpress(f"{expert} expert ranks among {data} data ranks")
    batch, micro = whole(row, "gbs"), whole(row, "mbs")
    if not batch and micro and whole(row, "grad_accum"):
        batch = micro * whole(row, "grad_accum") * data
    if not batch:
        raise CannotExpress("'gbs' was not published")
    if not micro:
        micro = guessed_microbatch(row, batch)
    micro = max(1, min(micro, batch // data))
    microbatches = max(1, round(batch / (data * micro)))
    layers = whole(row, "layers")
    # Megatron-LM counts expert ranks as data ranks.
    mesh = {"stage": stages, "data": data // expert, "context": context, "expert": expert, "model": model}
    plan = {"kerf": 1, "mesh": mesh, "global_batch": microbatches * data * micro,
            "microbatch": micro}
    recompute = (row.get("recompute") or "").lower()
    plan["recompute"] = "selective" if "selective" in recompute else "full" if "full" in recompute else "none"
    plan["sequence_parallel"] = (row.get("sp") or "").lower() == "yes" and model > 1
    zero = whole(row, "zero", 0) or 0
    plan["optimizer_sharding"] = zero
    if convention["overlap"]:  # unless it is the trainer's default
        plan["overlap"] = [word for word in convention["overlap"].split() if word != "none"]
    plan["attention"] = "fused" if context > 1 else convention["attention"]
    schedule = (row.get("schedule") or "").lower()
    if stages > 1:
        chunks = row.get("vp") or "1"
        chunks = (layers + 2) // stages if "max" in chunks else max(1, whole(row, "vp", 1) or 1)
        if "zb" in schedule or "zero bubble" in schedule:
            variant = "2p" if "2p" in schedule else "1p" if "1p" in schedule else "h1"
            plan["schedule"] = {"name": "zero-bubble", "variant": variant}
        elif chunks > 1:
            plan["schedule"] = {"name": "interleaved", "chunks": chunks}
        else:
            plan["schedule"] = {"name": "gpipe" if "gpipe" in schedule else "1f1b"}
        if convention["ends"] == "embedding":  # embedding and head count as a layer each
            parts = stages * (chunks if "max" in (row.get("vp") or "") else 1)
            each = (layers + 2) // parts
            counts = [each - (part in (0, parts - 1)) for part in range(parts)]
            if sum(counts) != layers:
                raise CannotExpress(f"{layers} layers in {parts} parts with fewer on the first and last")
            plan["stages"], begin = [], 0
            for count in counts:
                plan["stages"].append({"layers": [begin, begin + count - 1] if count else []})
                begin += count
    return plan


def dtype_of(row):
    text = (row.get("dtype") or "").lower()
    return "f8" if "fp8" in text or "f8" in text else "bf16" if "bf16" in text else "f32" if "fp32" in text else "f16"


def measured_seconds(row, plan, predicted):
    """Returns the seconds of a step, as published or computed from rates. Hardware FLOP/s include the recomputed forward (8 instead of 6 per weight)."""
    seconds = number(row, "iter_time_s")
    if seconds:
        return seconds
    batch, sequence, gpus = plan["global_batch"], whole(row, "seq"), whole(row, "gpus") or predicted["ranks"]
    tokens = batch * sequence
    if number(row, "tokens_s_total"):
        return tokens / number(row, "tokens_s_total")
    if number(row, "tokens_s_gpu"):
        return tokens / number(row, "tokens_s_gpu") / gpus
    if number(row, "samples_s"):
        return batch / number(row, "samples_s")
    rate = number(row, "tflops_per_gpu")
    if not rate:
        return None
    hardware = "hardware" in (row.get("tflops_kind") or "")
    flops = predicted["model_flops"]
    if "llama" not in (row.get("arch") or "").lower():  # the formula of SC21 and of later papers that use it
        layers, hidden, vocabulary = whole(row, "layers"), whole(row, "hidden"), whole(row, "vocab", 51200) or 51200
        attention, head = sequence / (6 * hidden), vocabulary / (16 * layers * hidden)
        flops = (96 if hardware else 72) * tokens * layers * hidden**2 * (1 + attention + head)
    elif hardware and plan["recompute"] == "full":
        flops *= 4 / 3
    return flops / (rate * 1e12 * gpus)


def memory_errors(row, predicted):
    measured = number(row, "mem_gb")
    if not measured:
        return None
    kind = (row.get("mem_kind") or "").lower()
    key = "reserved_bytes" if "reserved" in kind else "device_bytes" if "nvidia" in kind else None
    if key:
        most = max(stage[key] for stage in predicted["memory"])
    else:
        most = max(predicted["peak_bytes"])
    return most / GIB / measured - 1


# Properties that the trainer fixes and that people do not choose. They are kept; the search decides all others.
KEPT = ("overlap", "attention", "gradient_dtype")


def search(row, kerf, plan, paths, cluster, ranks, dtype, folder, index):
    """Returns the plan that Kerf finds for the row's model, machines and batch."""
    pins = os.path.join(folder, f"{index}-pins.json")
    with open(pins, "w") as file:
        json.dump({"kerf": 1, **{key: plan[key] for key in KEPT if key in plan}}, file)
    command = [kerf, "plan", paths["config"], "--for", conventions(row)["trainer"], "--cluster", cluster, "--ranks", str(ranks), "--dtype", dtype, "--optimizer", "adamw", "--sequence",
               str(whole(row, "seq")), "--global-batch", str(plan["global_batch"]), "--constraints", pins, "--top", "0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip().splitlines()[-1]}


def plan_text(plan):
    mesh, schedule = plan["mesh"], plan.get("schedule", {})
    text = " ".join(f"{axis} {size}" for axis, size in mesh.items() if size > 1) + f" microbatch {plan['microbatch']}"
    if mesh.get("stage", 1) > 1:
        text += f" {schedule.get('name', '1f1b')}{' ' + schedule['variant'] if schedule.get('variant') else ''}"
        text += f" {schedule['chunks']}" if schedule.get("chunks", 1) > 1 else ""
    recompute = plan.get("recompute", "none")
    return text + f" recompute {recompute if isinstance(recompute, str) else ' '.join(recompute)} sharding {plan.get('optimizer_sharding', 0)}"


def print_found(rows, results):
    """Prints the predicted times of the published plans and of the plans that Kerf found."""
    print(f"\n{'row':<28} {'published s':>11} {'found s':>9} {'shorter':>8}  bound  published plan -> found plan")
    worse = fitting = 0
    for row, result in zip(rows, results):
        found = result.get("found")
        if not found:
            continue
        if "error" in found:
            print(f"{row.get('id'):<28} {result['predicted']:>11.4f}  {found['error']}")
            worse += result["fits"]
            continue
        seconds, bound = found["predicted"]["step_seconds"], found["predicted"]["lower_bound_seconds"]
        fitting += result["fits"]
        worse += result["fits"] and seconds > result["predicted"]
        print(f"{row.get('id'):<28} {result['predicted']:>11.4f} {seconds:>9.4f} {100 * (1 - seconds / result['predicted']):>+7.1f}%  "
              f"{'proven' if bound >= seconds else f'{100 * (1 - bound / seconds):.1f} %'}  {plan_text(result['plan'])}"
              f"{'' if result['fits'] else ' (does not fit)'} -> {plan_text(found)}")
    print(f"of {fitting} published plans that fit, {worse} are predicted faster than the plan found")


def predict(row, kerf, folder, index, searched):
    convention = conventions(row)
    plan = plan_of(row, convention)
    config = config_of(row, convention)
    dtype = dtype_of(row)
    if dtype != "f32":
        plan["gradient_dtype"] = convention["gradient_dtype"]
    ranks = math.prod(plan["mesh"].values())
    cluster = cluster_of(row, ranks, folder)
    paths = {}
    for name, value in (("config", config), ("plan", plan)):
        paths[name] = os.path.join(folder, f"{index}-{name}.json")
        with open(paths[name], "w") as file:
            json.dump(value, file)
    command = [kerf, "simulate", paths["config"], "--for", convention["trainer"], "--cluster", cluster, "--plan", paths["plan"], "--ranks", str(ranks),
               "--dtype", dtype, "--optimizer", "adamw", "--sequence", str(whole(row, "seq")), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotExpress(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"kerf ended with {done.returncode}")
    predicted = json.loads(done.stdout)
    return {"found": search(row, kerf, plan, paths, cluster, ranks, dtype, folder, index) if searched and ranks >= 8 else None,
            "predicted": predicted["step_seconds"], "measured": measured_seconds(row, plan, predicted), "fits": predicted["fits"],
            "memory": memory_errors(row, predicted), "breakdown": predicted["breakdown"], "plan": plan,
            "cluster": os.path.basename(cluster)[:-5]}


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * (len(ordered) - 1) + 0.5))]


def tau(pairs):
    concordant = discordant = 0
    for i, (a, b) in enumerate(pairs):
        for c, d in pairs[:i]:
            sign = (a - c) * (b - d)
            concordant += sign > 0
            discordant += sign < 0
    return (concordant - discordant) / max(1, concordant + discordant)


def group_of(row):
    return f"{row.get('system')} / {re.split('[#/]', row.get('id') or '?')[0]}"


def print_groups(title, errors):
    """Prints the errors of each group of rows and of all rows. `errors` maps a group to its errors."""
    print(f"\n{title:<64} {'rows':>5} {'median':>8} {'p90':>8} {'bias':>8}")
    everything = [error for values in errors.values() for error in values]
    for group, values in [*errors.items(), ("all", everything)]:
        sizes = [abs(value) for value in values]
        print(f"{group:<64} {len(values):>5} {100 * statistics.median(sizes):>7.1f}% {100 * percentile(sizes, 0.9):>7.1f}%"
              f" {100 * statistics.median(values):>+7.1f}%")


def first_of_each_line(rows):
    """Returns the first row of each line of conventions.csv."""
    seen = set()
    return [row for row in rows if (line := CONVENTIONS.get(row.get("id"), {}).get("rows")) not in seen and not seen.add(line)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", help="published runs, with the columns of README.md")
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent processes")
    parser.add_argument("--only", default="", help="predict only rows whose id contains this text")
    parser.add_argument("--rows", help="write the rows with their errors to this CSV file")
    parser.add_argument("--quick", action="store_true", help="predict only one row of each line of conventions.csv")
    parser.add_argument("--quiet", action="store_true", help="print only the groups")
    parser.add_argument("--search", action="store_true", help="also let kerf plan find a plan for each row of 8 GPUs or more, and compare")
    arguments = parser.parse_args()
    with open(arguments.csv, newline="") as file:
        rows = [row for row in csv.DictReader(file) if arguments.only in (row.get("id") or "")]
    rows = first_of_each_line(rows) if arguments.quick else rows

    def one(item):
        index, row = item
        try:
            return predict(row, arguments.kerf, folder, index, arguments.search)
        except CannotExpress as reason:
            return {"reason": str(reason)}

    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            results = list(pool.map(one, enumerate(rows)))

    # Rows that did not influence the cost model, and rows that did.
    free, influenced = collections.defaultdict(list), collections.defaultdict(list)
    memory, varied = collections.defaultdict(list), collections.defaultdict(list)
    left_out, ran_out, oom_known, out_rows = [], 0, 0, []
    if not arguments.quiet:
        print(f"{'row':<28} {'measured s':>11} {'predicted s':>11} {'error':>8}  memory  plan")
    for row, result in zip(rows, results):
        name = row.get("id") or "?"
        if "reason" in result:
            left_out.append((name, result["reason"]))
            continue
        is_oom = (row.get("oom") or "").strip().lower() in ("1", "yes", "true", "oom")
        if is_oom:
            ran_out += 1
            oom_known += not result["fits"]
        measured = result["measured"]
        if not measured:
            if not is_oom:
                left_out.append((name, "no time and no rate was published"))
            continue
        error = result["predicted"] / measured - 1
        decided = conventions(row)["influenced"]
        (influenced if decided else free)[group_of(row)].append(error)
        if result["memory"] is not None:
            memory[f"{group_of(row)} ({row.get('mem_kind')})"].append(result["memory"])
        same = tuple(row.get(key) for key in ("system", "layers", "hidden", "heads", "seq", "gpus", "gbs", "hardware", "dtype", "recompute"))
        varied[same].append((measured, result["predicted"], name))
        mesh = result["plan"]["mesh"]
        text = (f"{result['cluster']} stage {mesh['stage']} data {mesh['data']} model {mesh['model']} microbatch "
                f"{result['plan']['microbatch']} {result['plan'].get('schedule', {}).get('name', '')} {result['plan']['recompute']}")
        if not arguments.quiet:
            used = f"{100 * result['memory']:+.1f} %" if result["memory"] is not None else ""
            print(f"{name:<28} {measured:>11.4f} {result['predicted']:>11.4f} {100 * error:>+7.1f}%  {used:>7}  {text}"
                  f"{'' if result['fits'] else '  does not fit'}")
        out_rows.append({"id": name, "measured": measured, "predicted": result["predicted"], "error": error, "influenced": decided,
                         **{key: value for key, value in result["breakdown"].items() if not isinstance(value, dict)},
                         **{f"exposed_{key}": value for key, value in result["breakdown"]["exposed"].items()}})

    if free:
        print_groups("rows that decided no constant and no mechanism", free)
    if influenced:
        print_groups("rows that decided one (conventions.csv says which)", influenced)
    taus = [(key, pairs) for key, pairs in varied.items() if len(pairs) >= 4]
    if taus:
        print("\nplans of one model on one cluster, four or more: Kendall's tau, and how much slower the first by prediction is than the best")
    for key, pairs in taus:
        best = min(measured for measured, _, _ in pairs)
        first = min(pairs, key=lambda pair: pair[1])
        print(f"  {key[0]}, {key[1]} layers of {key[2]}, {key[5]} GPUs, batch {key[6]}, {len(pairs)} plans: "
              f"tau {tau([(measured, predicted) for measured, predicted, _ in pairs]):.2f}, {100 * (first[0] / best - 1):+.1f} %")
    for group, values in memory.items():
        sizes = [abs(value) for value in values]
        print(f"\nmemory, {group}: {len(values)} rows, median {100 * statistics.median(sizes):.1f} %, bias "
              f"{100 * statistics.median(values):+.1f} %, {100 * min(values):+.1f} to {100 * max(values):+.1f} %")
    if ran_out:
        print(f"\nran out of memory: {oom_known} of {ran_out} rows recognized")
    print(f"\nnot expressed: {len(left_out)} rows")
    for name, reason in left_out:
        print(f"  {name}: {reason}")
    if arguments.search:
        print_found(rows, results)
    if arguments.rows and out_rows:
        keys = list(dict.fromkeys(key for row in out_rows for key in row))
        with open(arguments.rows, "w", newline="") as file:
            writer = csv.DictWriter(file, keys)
            writer.writeheader()
            writer.writerows(out_rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
