#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Python program that README.md shows, on four processes as torchrun would start them, and compares its losses with those
of PyTorch alone. The processes are forked from one that has imported PyTorch, because the imports take longer than the program. It has
run nothing else, because PyTorch's gradients do not work in a process that is forked after others were computed."""
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = ("torch", "transformers", "onnxscript")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
RANKS, STEPS = 4, 3


def program():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```python[^\n]*\n(.*?)^```", file.read(), re.M | re.S)
    assert len(blocks) == 1, "README.md has another number of Python blocks than one"
    return blocks[0]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run_rank(rank, port, text, path):
    """Runs the program as one rank, with its output in a file. Never returns."""
    status = 1
    try:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        with open(path, "w", encoding="utf-8") as out:
            os.dup2(out.fileno(), 1)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
            exec(compile(text, "README.md", "exec"), {"__name__": "__main__"})
            sys.stdout.flush()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def run_ranks(folder):
    """Runs the program on all ranks, each with its output in a file of the folder, and returns 0 if all have succeeded."""
    import torch
    from transformers import LlamaForCausalLM  # noqa: F401 - before the processes are forked

    import kerf.torch  # noqa: F401

    torch.set_num_threads(1)
    port, children = free_port(), []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            run_rank(rank, port, program(), os.path.join(folder, str(rank)))
        children.append(child)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return int(ended != [0] * RANKS)


class Readme(unittest.TestCase):
    def test_the_program_is_short(self):
        lines = [line for line in program().splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 20)
        compile(program(), "README.md", "exec")

    @unittest.skipIf(MISSING, f"the packages {', '.join(MISSING)} are not installed")
    def test_the_program_runs(self):
        import torch
        import transformers

        said = []
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "ranks", folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            for rank in range(RANKS):
                with open(os.path.join(folder, str(rank)), encoding="utf-8") as file:
                    said.append(file.read())
        self.assertIn("8 ranks of", said[0])
        self.assertIn("the best plan with another value of each decision", said[0])
        losses = [[float(loss) for loss in re.findall(r"^step \d+  loss (\S+)$", text, re.M)] for text in said]
        self.assertEqual([len(one) for one in losses], [STEPS] * RANKS)
        self.assertEqual(losses, [losses[0]] * RANKS)
        for ours, theirs in zip(losses[0], self.alone(torch, transformers)):
            self.assertAlmostEqual(ours, theirs, delta=2e-4)

    def alone(self, torch, transformers):
        """Returns the losses of the program's model without Kerf, on one process."""
        text = program()
        given = {"torch": torch, **{name: getattr(transformers, name) for name in ("LlamaConfig", "LlamaForCausalLM")}}
        exec(text[text.index("torch.manual_seed"):text.index("model = kerf")], given)
        module, batch = given["module"], given["batch"]
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        losses = []
        for _ in range(STEPS):
            loss = module(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses


if __name__ == "__main__":
    if sys.argv[1:2] == ["ranks"]:
        sys.exit(run_ranks(sys.argv[2]))
    unittest.main()
