# SPDX-License-Identifier: Apache-2.0
"""Lets kerf plan find a plan for the job of each row, and compares its predicted time with that of the published plan."""
import json
import os
import subprocess

# Properties that the trainer fixes and that people do not choose. They are kept; the search decides all others.
KEPT = ("overlap", "attention", "gradient_dtype")


def search(run, kerf, folder, index, kept=KEPT, mesh=None):
    """Returns the plan that Kerf finds for the row's model, machines and batch. `kept` are the keys of the row's plan that stay, and
    `mesh` the axes of its mesh that do."""
    pins = os.path.join(folder, f"{index}-pins.json")
    with open(pins, "w") as file:
        json.dump({"kerf": 1, **{key: run.plan[key] for key in kept if key in run.plan}, **({"mesh": mesh} if mesh else {})}, file)
    command = run.command(kerf, "plan", "--global-batch", str(run.plan["global_batch"]), "--constraints", pins, "--top", "0")
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


def print_found(row, result):
    """Prints the predicted times of the published plan of a row and of the plan that Kerf found."""
    found = result["found"]
    if "error" in found:
        print(f"    nothing found for {row.get('id')}: {found['error']}", flush=True)
        return
    seconds, bound = found["predicted"]["step_seconds"], found["predicted"]["lower_bound_seconds"]
    print(f"    found {seconds:.4f} s, {100 * (1 - seconds / result['predicted']):.1f} % shorter, "
          f"{'proven' if bound >= seconds else f'gap {100 * (1 - bound / seconds):.1f} %'}: {plan_text(found)}", flush=True)


def print_all_found(results):
    """Prints how many published plans are predicted to be faster than the plan that Kerf found."""
    searched = [result for _, result in results if result["found"] and result["fits"]]
    worse = sum("error" in result["found"] or result["found"]["predicted"]["step_seconds"] > result["predicted"] for result in searched)
    print(f"\nof {len(searched)} published plans that fit, {worse} are predicted faster than the plan found")
