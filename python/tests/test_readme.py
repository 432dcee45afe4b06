#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Python program that README.md shows, on four processes as torchrun would start them, and compares its losses with those
of PyTorch alone. The processes are forked from one that has imported PyTorch, because the imports take longer than the program."""
import importlib.util
import os
import re
import socket
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


class Readme(unittest.TestCase):
    def test_the_program_is_short(self):
        lines = [line for line in program().splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 20)
        compile(program(), "README.md", "exec")

    @unittest.skipIf(MISSING, f"the packages {', '.join(MISSING)} are not installed")
    def test_the_program_runs(self):
        import torch
        import transformers
        from transformers import LlamaForCausalLM  # noqa: F401 - before the processes are forked

        import kerf.torch  # noqa: F401

        torch.set_num_threads(1)
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(rank)) for rank in range(RANKS)]
            children = []
            for rank in range(RANKS):
                child = os.fork()
                if child == 0:
                    run_rank(rank, port, program(), paths[rank])
                children.append(child)
            ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            said = []
            for path in paths:
                with open(path, encoding="utf-8") as file:
                    said.append(file.read())
        self.assertEqual(ended, [0] * RANKS)
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
    unittest.main()
