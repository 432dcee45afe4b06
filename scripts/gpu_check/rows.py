# SPDX-License-Identifier: Apache-2.0
"""Rows of the check: they are written to a file as soon as they are known, so that a run that is cut off keeps them."""
import json
import os
import signal
import subprocess
import time

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
LEAST_SECONDS = 5  # no step begins with less time left


class Done:
    """The end of a command: its status (None: it was ended because its time was over), its output, and its seconds."""

    def __init__(self, status, out, err, seconds, first_line_seconds=None):
        self.status, self.out, self.err, self.seconds, self.first_line_seconds = status, out, err, seconds, first_line_seconds

    def why(self):
        """Returns one line that says why the command failed."""
        if self.status is None:
            return f"ended after {self.seconds:.0f} s, its time"
        lines = [line for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return f"exit status {self.status}: {(errors or lines or ['no output'])[-1].strip()[:300]}"


def command(args, seconds, log, env=None, watch=None):
    """Runs a command for at most `seconds`, with its output in the files `log`.out and `log`.err. With `watch`, the result tells after how many
    seconds that file has its first line."""
    start, first, status = time.monotonic(), None, None
    with open(log + ".out", "w") as out, open(log + ".err", "w") as err:
        process = subprocess.Popen([str(arg) for arg in args], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                                   env={**os.environ, **(env or {})})
        try:
            while status is None and time.monotonic() - start < seconds:
                if watch and first is None and os.path.exists(watch) and os.path.getsize(watch):
                    first = time.monotonic() - start
                try:
                    status = process.wait(0.02 if watch and first is None else min(0.5, max(0.01, seconds - (time.monotonic() - start))))
                except subprocess.TimeoutExpired:
                    pass
        finally:
            if status is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    texts = []
    for end in (".out", ".err"):
        with open(log + end, errors="replace") as file:
            texts.append(file.read())
    return Done(status, *texts, time.monotonic() - start, first)


class Rows:
    """The rows of a run, and the time that is left to it."""

    def __init__(self, folder, seconds, keep):
        self.path, self.table, self.end = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "table.md"), time.monotonic() + seconds
        self.rows, self.not_run = [], []
        os.makedirs(folder, exist_ok=True)
        if keep and os.path.exists(self.path):
            with open(self.path) as file:
                self.rows = [json.loads(line) for line in file]
        else:
            open(self.path, "w").close()

    def left(self):
        return self.end - time.monotonic()

    def has(self, part, name):
        return any((row["part"], row["name"]) == (part, name) for row in self.rows)

    def add(self, part, name, status, text, seconds=0.0, **numbers):
        row = {"part": part, "name": name, "status": status, "text": text, "seconds": round(seconds, 2), **numbers}
        self.rows.append(row)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{part:<10} {name:<28} {status:<8} {text}", flush=True)

    def run(self, part, name, most_seconds, step):
        """Runs `step`, which gets its time limit and adds rows, unless its row is there or the time is over. An exception is a failed row."""
        if self.has(part, name):
            return
        if self.left() < LEAST_SECONDS:
            self.not_run.append(f"{part} {name}")
            return
        try:
            step(min(most_seconds, self.left() - 1))
        except Exception as error:  # the other rows are still worth their time
            self.add(part, name, FAILED, f"the check itself failed: {type(error).__name__}: {error}")

    def closing(self):
        count = {status: sum(row["status"] == status for row in self.rows) for status in (PASSED, FAILED, SKIPPED)}
        return f"{count[PASSED]} passed, {count[FAILED]} failed" + (f", {count[SKIPPED]} skipped" if count[SKIPPED] else "")

    def failed(self):
        return any(row["status"] == FAILED for row in self.rows)

    def write_table(self, title):
        """Writes all rows as Markdown, the benchmarks first."""
        lines = [f"**{title}**", ""]
        measured = [row for row in self.rows if "per_second" in row]
        if measured:
            lines += ["| model | trained by | a second | step | of the bf16 product peak | peak memory | first step after |", "|---|---|---|---|---|---|---|"]
            for row in measured:
                share = f"{row['share']:.1%}" if row.get("share") else "not known"
                lines.append(f"| {row['model']} | {row['side']} | {row['per_second']:,.0f} {row['unit']} | {row['step_seconds'] * 1e3:,.2f} ms | {share} | "
                             f"{row['peak_bytes'] / 1e9:.2f} GB | {row['first_step_seconds']:.1f} s |")
            lines.append("")
        longest = [(row["model"], one) for row in measured for one in row.get("longest", [])]
        if longest:
            lines += ["| model | longest ops | calls | time | of all ops |", "|---|---|---|---|---|"]
            lines += [f"| {model} | `{one['op']}` | {one['calls']} | {one['seconds'] * 1e3:,.2f} ms | {one['share']:.1%} |" for model, one in longest] + [""]
        lines += ["| part | row | result | numbers | seconds |", "|---|---|---|---|---|"]
        lines += [f"| {row['part']} | {row['name']} | {row['status']} | {row['text'].replace('|', '/')} | {row['seconds']:.1f} |" for row in self.rows]
        lines += [f"| {name.split()[0]} | {name.split(' ', 1)[1]} | not run | no time was left | |" for name in self.not_run]
        lines += ["", self.closing()]
        with open(self.table, "w") as file:
            file.write("\n".join(lines) + "\n")
        return lines
