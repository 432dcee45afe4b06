#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans random realistic jobs and says how far from proven each plan is, and what it cost to find it.

    benchmarks/jobs.py [--seed 1] [--count 40] [--others 20] [--cpu] [--only K] [--keep FOLDER] [--kerf build/bin/kerf]

Job K of seed S is the same on every machine. A job is a model (the families of docs/models.md, 0.1 to 1,000 billion parameters) on a
cluster (a file of clusters/, its networks slowed or sped up to 8 times in a third of the jobs, with 8 to 16,384 ranks), a global batch, a
sequence of up to a million tokens, a type, and in a quarter of the jobs a constraint. Models that learn a vector for each position (GPT-2, OPT,
BERT) get sequences of at most 8,192 tokens and a table of as many rows, because no such model has more; BLOOM gets at most 131,072 tokens,
because it adds a bias for each pair of them. A batch that is limited by the logits that Kerf counts is a power of two.

Each plan is searched for 10 seconds for up to 1,024 ranks and 60 above, on a machine that should have no other work (with --cpu: seconds of
CPU time of all threads together, so that other work changes less). It is then compared with --others random legal plans of the same job and
with the plan of a simple rule (tensor parallelism inside a node, then pipeline stages, then data; the first combination that fits): it must
not be slower than any of them that fits, and where the search finds nothing, none of them may fit.

One line is printed for each job; then how the gaps, the seconds and the memory of the search are distributed. Exit status 1 if a
search crashed, gave a plan that does not fit, or lost to another plan.
"""
import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ACCELERATORS = ["a100-roce", "dgx-a100-40gb", "dgx-a100", "dgx-b200", "dgx-h100", "dgx-v100", "eos", "h100-roce", "h800-roce", "jean-zay-a100",
                "p3", "p3dn", "p4d", "p5", "selene", "t4-nodes", "v100-nodes"]
WIDTHS = {0.1: (12, 768), 0.4: (24, 1024), 1.3: (24, 2048), 2.7: (32, 2560), 7: (32, 4096), 13: (40, 5120), 30: (48, 7168), 70: (80, 8192),
          175: (96, 12288), 405: (126, 16384), 530: (105, 20480), 1000: (128, 25600)}  # billions of parameters: layers, width
SECONDS = {1024: 10, 16384: 60}  # the most ranks: seconds of the search
MOST_LEARNED = 8192  # positions of a table of learned positions, at most
MOST_BIASED = 131072  # positions of a model whose attention adds a bias for each pair of positions (BLOOM), at most
LONG = 3600  # wall-clock seconds after which a search ends in any case
REPORT = 1.1  # seconds of the command by seconds of its search, at most: import of the model and report
TOLERANCE = 1e-6  # fraction by which another plan may be faster: prices are sums in another order


def dense(rnd, layers, width):
    heads = max(2, width // rnd.choice([64, 128]))
    family = rnd.choice(["gpt2", "llama", "llama", "bloom", "gpt_neox", "opt", "mistral", "qwen2", "falcon", "bert"])
    vocabulary = rnd.choice([32000, 50304, 65024, 128256, 151936])
    if family == "gpt2":
        return {"model_type": family, "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": MOST_LEARNED, "vocab_size": vocabulary}
    config = {"model_type": family, "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "vocab_size": vocabulary}
    if family in ("llama", "mistral", "qwen2"):
        config["num_key_value_heads"] = rnd.choice([head for head in (heads, heads // 4, 8) if head and heads % head == 0])
        config["intermediate_size"] = rnd.choice([8 * width // 3 // 256 * 256, 7 * width // 2])
    if family in ("opt", "bert"):
        config.update({"max_position_embeddings": MOST_LEARNED, "ffn_dim" if family == "opt" else "intermediate_size": 4 * width})
    if family == "opt":
        config["word_embed_proj_dim"] = width
    if family == "falcon":
        config.update({"new_decoder_architecture": True, "num_kv_heads": next(n for n in (8, 4, 2, 1) if heads % n == 0), "alibi": False})
    if family == "gpt_neox":
        config["intermediate_size"] = 4 * width
    return config


def experts(rnd, layers, width):
    heads = max(2, width // 128)
    family, many = rnd.choice(["mixtral", "qwen3_moe"]), rnd.choice([8, 16, 64])
    config = {"model_type": family, "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "vocab_size": 32000,
              "num_key_value_heads": next(n for n in (8, 4, 2, 1) if heads % n == 0), "num_experts_per_tok": rnd.choice([1, 2, 4])}
    if family == "mixtral":
        config.update({"num_local_experts": many, "intermediate_size": 7 * width // 2})
    else:
        config.update({"num_experts": many, "moe_intermediate_size": width // 2, "intermediate_size": 3 * width, "head_dim": 128})
    return config


def cluster_for(rnd, ranks):
    """A cluster file with at least `ranks` ranks: more of its outermost units where it has fewer."""
    with open(os.path.join(ROOT, "clusters", rnd.choice(ACCELERATORS) + ".json")) as file:
        cluster = json.load(file)
    inner = 1
    for level in cluster["levels"][:-1]:
        inner *= level["size"]
    cluster["levels"][-1]["size"] = max(cluster["levels"][-1]["size"], -(-ranks // inner))
    factor = rnd.choice([1, 1, 1, 1, 1 / 8, 1 / 3, 3, 8])
    for level in cluster["levels"][1:] if factor != 1 else []:
        level["bandwidth"] *= factor
        if "node_bandwidth" in level:
            level["node_bandwidth"] *= factor
    return cluster, factor


def job_of(seed, number):
    """The job as a dictionary; it depends on nothing but the seed and its number."""
    rnd = random.Random(f"{seed} {number}")
    billions = rnd.choice(list(WIDTHS))
    layers, width = WIDTHS[billions]
    layers = max(2, round(layers * rnd.choice([0.5, 1, 1, 1, 1.5])))
    fewest = next(n for n in (8, 64, 256, 1024) if billions <= {8: 7, 64: 70, 256: 405, 1024: 2000}[n])
    ranks = fewest * 2 ** rnd.randint(0, 4)
    sequence = rnd.choice([512, 1024, 2048, 2048, 4096, 4096, 8192, 32768, 131072, 1048576])
    samples, fraction = 2 ** rnd.randint(0, 3), rnd.choice([1, 4])
    config = experts(rnd, max(2, layers // 2), max(1024, width // 2)) if rnd.random() < 0.25 else dense(rnd, layers, width)
    learned = next((key for key in ("n_positions", "max_position_embeddings") if key in config), None)
    if learned:
        sequence = config[learned] = min(sequence, MOST_LEARNED)
    if config["model_type"] == "bloom":
        sequence = min(sequence, MOST_BIASED)
    batch = max(1, samples * ranks * 2048 // sequence // fraction)
    most = (1 << 43) // (sequence * 152064)  # the most logits that Kerf counts
    batch = batch if batch <= most else 1 << most.bit_length() - 1
    cluster, factor = cluster_for(rnd, ranks)
    rates = cluster["device"]["peak_flops"]
    dtype = rnd.choice([one for one in ("bf16", "bf16", "bf16", "f16", "f32") if one in rates])
    pins = rnd.choice([{}, {}, {}, {"recompute": "full"}, {"optimizer_sharding": 1}, {"mesh": {"stage": 1}}, {"schedule": {"name": "1f1b"}}, {}])
    return {"config": config, "cluster": cluster, "network": factor, "ranks": ranks, "sequence": sequence, "batch": batch, "dtype": dtype, "pins": pins,
            "optimizer": rnd.choice(["adamw", "adamw", "adamw", "sgd", "lion"]), "billions": billions}


def words_of(job):
    c = job["config"]
    layers, width = c.get("n_layer", c.get("num_hidden_layers")), c.get("n_embd", c.get("hidden_size"))
    network = "" if job["network"] == 1 else f", network x {job['network']:.3g}"
    pins = "".join(f", {key} {json.dumps(value)}" for key, value in job["pins"].items())
    return (f"{c['model_type']} {layers} x {width}, {job['ranks']} ranks of {job['cluster']['name']}{network}, batch {job['batch']} x {job['sequence']}, "
            f"{job['dtype']}, {job['optimizer']}{pins}")


def cpu_seconds(pid):
    """CPU seconds of a running process (fields 14 and 15 of /proc/PID/stat)."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Runner:
    """Runs kerf on one job, whose files are in `folder`."""

    def __init__(self, kerf, job, folder, cpu=False):
        self.kerf, self.job, self.folder, self.cpu = kerf, job, folder, cpu
        for name, content in (("config.json", job["config"]), ("cluster.json", job["cluster"]), ("pins.json", {"kerf": 1, **job["pins"]})):
            self.write(name, content)
        self.common = [self.path("config.json"), "--cluster", self.path("cluster.json"), "--ranks", str(job["ranks"]), "--global-batch", str(job["batch"]),
                       "--sequence", str(job["sequence"]), "--dtype", job["dtype"], "--optimizer", job["optimizer"]]

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "w") as file:
            json.dump(content, file)

    def plan(self, seconds):
        """Status, plan, seconds and peak bytes of `kerf plan`, which is asked to end (as by Ctrl-C) after `seconds`, of CPU time with --cpu."""
        command = [self.kerf, "plan", *self.common, "--budget", str(LONG), "--constraints", self.path("pins.json"), "-o", self.path("plan.json"), "--json"]
        began = time.monotonic()
        with open(self.path("plan.err"), "w") as err:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err)
            status, asked = None, False
            while not status:
                ended, code, usage = os.wait4(process.pid, os.WNOHANG)
                status = (code,) if ended else None
                if not ended and not asked and (cpu_seconds(process.pid) if self.cpu else time.monotonic() - began) >= seconds:
                    os.kill(process.pid, signal.SIGINT)  # send_signal would wait for a process that has just ended
                    asked = True
                time.sleep(0.05)
            status, = status
            ended_at = time.monotonic()
            process.returncode = os.waitstatus_to_exitcode(status)
        with open(self.path("plan.err")) as err:
            said = err.read().strip()
        found = None
        if process.returncode == 0:
            with open(self.path("plan.json")) as file:
                found = json.load(file)
        taken = usage.ru_utime + usage.ru_stime if self.cpu else ended_at - began
        return process.returncode, found, taken, usage.ru_maxrss * 1024, said

    def step_of(self, plan):
        """Seconds of a step of the plan if it is legal and fits, else None."""
        self.write("other.json", plan)
        done = subprocess.run([self.kerf, "simulate", *self.common, "--plan", self.path("other.json"), "--json"], text=True, capture_output=True)
        if done.returncode not in (0, 1, 2):
            raise AssertionError(f"kerf simulate ended with status {done.returncode}: {done.stderr.strip()[-300:]}; the plan: {json.dumps(plan)}")
        answer = json.loads(done.stdout) if done.returncode == 0 else {"fits": False}
        return answer["step_seconds"] if answer["fits"] else None


def node_of(cluster):
    return cluster["levels"][0]["size"]


def respects(plan, pins):
    mesh = pins.get("mesh", {})
    return (all(plan["mesh"].get(axis, 1) == size for axis, size in mesh.items()) and all(plan.get(key) == value for key, value in pins.items() if key not in ("mesh", "schedule"))
            and ("schedule" not in pins or plan["schedule"]["name"] == pins["schedule"]["name"]))


def expert_plan(runner):
    """The first plan of the rule that fits: tensor parallelism up to a node, then stages, then recomputation; data takes the rest."""
    job = runner.job
    node, ranks = node_of(job["cluster"]), job["ranks"]
    for recompute in ("selective", "full"):
        for stages in (1, 2, 4, 8, 16, 32):
            for ways in (1, 2, 4, 8, 16):
                if ways > node or ranks % (ways * stages) or job["batch"] % (ranks // (ways * stages)):
                    continue
                plan = {"kerf": 1, "mesh": {"stage": stages, "data": ranks // (ways * stages), "model": ways}, "order": ["stage", "data", "model"], "microbatch": 1,
                        "schedule": {"name": "1f1b"}, "recompute": recompute, "optimizer_sharding": 1, "sequence_parallel": ways > 1, **job["pins"]}
                plan["mesh"] = {"stage": stages, "data": ranks // (ways * stages), "model": ways}
                if not respects(plan, job["pins"]):
                    continue
                seconds = runner.step_of(plan)
                if seconds is not None:
                    return seconds, plan
    return None, None


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def random_plan(rnd, job):
    ranks, pins = job["ranks"], job["pins"]
    stages = rnd.choice([d for d in (1, 2, 4, 8, 16, 32) if ranks % d == 0])
    ways = rnd.choice([d for d in (1, 2, 4, 8, 16) if ranks // stages % d == 0])
    context = rnd.choice([d for d in (1, 1, 1, 2, 4, 8) if ranks // stages // ways % d == 0])
    expert = rnd.choice([d for d in (1, 2, 4, 8) if ranks // stages // ways // context % d == 0]) if "moe" in job["config"]["model_type"] or "mixtral" == job["config"]["model_type"] else 1
    data = ranks // stages // ways // context // expert
    if job["batch"] % (data * expert):
        return None
    share = job["batch"] // (data * expert)
    axes = ["stage", "data", "context", "expert", "model"]
    if rnd.random() < 0.3:
        rnd.shuffle(axes)
    plan = {"kerf": 1, "mesh": {"stage": stages, "data": data, "context": context, "expert": expert, "model": ways}, "order": axes,
            "microbatch": rnd.choice([d for d in divisors(share) if d <= 16]), "schedule": {"name": rnd.choice(["1f1b", "1f1b", "gpipe", "interleaved", "zero-bubble"])},
            "recompute": rnd.choice(["none", "selective", "pointwise", "except-attention", "full"]), "optimizer_sharding": rnd.choice([0, 1, 2, 3]), "sequence_parallel": rnd.random() < 0.7}
    if stages == 1:
        plan["schedule"] = {"name": "1f1b"}
    elif plan["schedule"]["name"] == "interleaved":
        plan["schedule"]["chunks"] = 2
    elif plan["schedule"]["name"] == "zero-bubble":
        plan["schedule"]["variant"] = rnd.choice(["h1", "1p", "2p", "by-memory"])
    for key in ("recompute", "optimizer_sharding"):
        if key in pins:
            plan[key] = pins[key]
    return plan if respects(plan, pins) else None


def others_of(runner, rnd, count):
    """(seconds, plan) of the fastest of `count` random plans that are legal and fit, and how many of them did."""
    best, fit = (None, None), 0
    for _ in range(count):
        plan = random_plan(rnd, runner.job)
        seconds = runner.step_of(plan) if plan else None
        if seconds is not None:
            fit += 1
            best = min(best, (seconds, plan), key=lambda one: one[0] if one[0] is not None else float("inf"))
    return best, fit


def judge(options, number, folder):
    """The row of one job: a dictionary; `wrong` says what should not be."""
    job = job_of(options.seed, number)
    runner = Runner(options.kerf, job, folder, options.cpu)
    effort = next(seconds for most, seconds in SECONDS.items() if job["ranks"] <= most)
    status, found, taken, memory, said = runner.plan(effort)
    row = {"number": number, "job": words_of(job), "ranks": job["ranks"], "seconds": taken, "memory": memory, "limit": effort, "gap": None, "wrong": ""}
    if status not in (0, 2):
        row["wrong"] = f"status {status}: {said[-300:]}"
        return row
    expert, expert_found = expert_plan(runner)
    (other, other_found), fit = others_of(runner, random.Random(f"{options.seed} {number} plans"), options.others)
    row.update(expert=expert, other=other, fit=fit)
    best = min((one for one in ((expert, expert_found), (other, other_found)) if one[0] is not None), key=lambda one: one[0], default=(None, None))
    if status == 2:
        row["wrong"] = f"nothing was found, but this plan fits: {json.dumps(best[1])}" if best[0] is not None else ""
        return row
    step, bound = found["predicted"]["step_seconds"], found["predicted"]["lower_bound_seconds"]
    row.update(step=step, gap=max(0.0, 1 - bound / step))
    if not found["predicted"]["fits"]:
        row["wrong"] = "the plan does not fit"
    elif best[0] is not None and best[0] < step * (1 - TOLERANCE):
        row["wrong"] = f"{best[0]:.5g} s instead of {step:.5g} s with {json.dumps(best[1])}"
    elif best[0] is not None and best[0] < bound * (1 - TOLERANCE):
        row["wrong"] = f"the bound {bound:.5g} s is above {best[0]:.5g} s of {json.dumps(best[1])}"
    return row


def text_of(row):
    if row["wrong"]:
        result = "WRONG: " + row["wrong"]
    elif row["gap"] is None:
        result = "nothing fits"
    else:
        result = f"{row['step']:.4g} s, gap {100 * row['gap']:.2f} %"
        for name, key in (("rule", "expert"), ("random", "other")):
            if row.get(key):
                result += f", {name} {row[key] / row['step']:.2f} x"
    return f"{row['number']:4} {row['job']}: {result} ({row['seconds']:.1f} s, {row['memory'] / 2**20:.0f} MiB)"


def share(rows, holds):
    return f"{100 * sum(map(holds, rows)) / len(rows):.1f} %"


def summary(rows):
    planned = [row for row in rows if row["gap"] is not None]
    lines = [f"{len(rows)} jobs: {len(planned)} plans, {sum(row['gap'] is None and not row['wrong'] for row in rows)} that fit nowhere, {sum(bool(row['wrong']) for row in rows)} wrong"]
    if planned:
        gaps = sorted(100 * row["gap"] for row in planned)
        lines.append(f"gap: median {statistics.median(gaps):.2f} %, p95 {gaps[int(0.95 * (len(gaps) - 1))]:.2f} %, worst {gaps[-1]:.2f} %; at most 1 % in {share(planned, lambda row: row['gap'] <= 0.01)}")
        lines.append(f"search: median {statistics.median(row['seconds'] for row in planned):.1f} s, worst {max(row['seconds'] for row in planned):.1f} s; within 10 s (60 s above 1,024 ranks) in "
                     f"{share(planned, lambda row: row['seconds'] <= REPORT * row['limit'])}; memory at most {max(row['memory'] for row in rows) / 2**20:.0f} MiB")
        lines.append(f"gap at most 1 % and in time: {share(planned, lambda row: row['gap'] <= 0.01 and row['seconds'] <= REPORT * row['limit'])}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40, help="number of jobs (default: 40)")
    parser.add_argument("--others", type=int, default=20, help="random plans that each plan is compared with (default: 20)")
    parser.add_argument("--cpu", action="store_true", help="count seconds of CPU time, of all threads together")
    parser.add_argument("--only", type=int, help="one job, by its number")
    parser.add_argument("--keep", help="folder for the files of the jobs (default: a temporary folder)")
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for number in [options.only] if options.only is not None else range(options.count):
            folder = os.path.join(options.keep or temporary, str(number))
            os.makedirs(folder, exist_ok=True)
            rows.append(judge(options, number, folder))
            print(text_of(rows[-1]), flush=True)
    print(summary(rows))
    sys.exit(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    main()
