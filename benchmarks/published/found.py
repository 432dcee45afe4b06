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


def print_found(results):
    """Prints the predicted times of the published plans and of the plans that Kerf found."""
    print(f"\n{'row':<28} {'published s':>11} {'found s':>9} {'shorter':>8}  bound  published plan -> found plan")
    worse = fitting = 0
    for row, result in results:
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
