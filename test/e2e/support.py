# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the command line, the models with their reference losses, and files made by hand.

Only Python's standard library. KERF names the program (default build/bin/kerf), KERF_SHARED a folder with more models, which are left
out where it does not exist, KERF_DEVICE what `train` and `run` get as --device.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
SHARED = os.environ.get("KERF_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
DEVICE = os.environ.get("KERF_DEVICE")
CLUSTERS = os.path.join(ROOT, "clusters")
FOLDERS = {
    "gpt2": os.path.join(ROOT, "examples", "gpt2"),
    "llama": os.path.join(ROOT, "test", "models", "llama"),
    "mlp": os.path.join(ROOT, "test", "models", "mlp"),
}
# Exports of other families, where KERF_SHARED has them.
SHARED_EXPORTS = {name: os.path.join(SHARED, "models", name) for name in ("bert", "cnn", "mixtral", "resnet", "vit")
                  if os.path.isdir(os.path.join(SHARED, "models", name))}

# name -> (ranks, mesh that the plan is held to)
PLANS = {"1": (1, None)}
for n in (2, 3, 4):
    PLANS[f"{n} searched"] = (n, None)
    PLANS[f"{n} data"] = (n, {"data": n, "model": 1})
    PLANS[f"{n} tensor"] = (n, {"data": 1, "model": n})
PLANS["4 mixed"] = (4, {"data": 2, "model": 2})


def file_of(model, name="model.onnx"):
    return os.path.join(FOLDERS.get(model) or SHARED_EXPORTS[model], name)


def golden_of(model):
    with open(file_of(model, "golden.json")) as file:
        return json.load(file)


def optimizer_flags(golden, optimizer):
    """Options of import and compile, and options of run, for the settings that the reference losses were made with."""
    settings = golden["optimizers"][optimizer]
    if optimizer == "sgd":
        step = ["--optimizer", "sgd", "--momentum", str(settings["momentum"])]
    else:
        step = ["--optimizer", "adamw", "--beta1", str(settings["beta1"]), "--beta2", str(settings["beta2"]),
                "--eps", str(settings["eps"]), "--weight-decay", str(settings["weight_decay"])]
    return step, ["--lr", str(settings["lr"])]


def random_cluster(rnd):
    """Compute and links from free to dear."""
    level = lambda name, size: {"name": name, "size": size, "bandwidth": 10 ** rnd.uniform(5, 15), "latency": 10 ** rnd.uniform(-12, -4)}
    return {"name": "random",
            "device": {"kind": "cpu", "name": "random", "memory_bytes": 10 ** 11, "cores": 1,
                       "peak_flops": {"f64": 10 ** rnd.uniform(6, 12)}, "memory_bandwidth": 10 ** rnd.uniform(6, 12)},
            "levels": [level("inner", rnd.choice([1, 2, 4])), level("outer", 8)]}


def on_device(args):
    """The arguments of a command, on KERF_DEVICE where it trains."""
    return [*args, "--device", DEVICE] if DEVICE and args[0] in ("train", "run") else [*args]


def kerf(*args, timeout=120, cwd=None):
    return subprocess.run([KERF, *map(str, on_device(args))], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=timeout, cwd=cwd)


def losses_of(path):
    with open(path) as file:
        return [json.loads(line)["loss"] for line in file]


class KerfTest(unittest.TestCase):
    """A test with a folder of its own, `self.folder`."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kerf-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        """Text, bytes, or anything else as JSON; gives the path."""
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def succeed(self, *args, **more):
        done = kerf(*args, **more)
        self.assertEqual(done.returncode, 0, f"kerf {' '.join(map(str, args))}\n{done.stderr[-3000:]}")
        return done

    def refuse(self, status, words, *args, **more):
        """The command ends with `status` and one error message that holds all of `words`."""
        done = kerf(*args, **more)
        said = f"kerf {' '.join(map(str, args))}\n{done.stderr[-3000:]}"
        self.assertEqual(done.returncode, status, said)
        self.assertEqual(done.stderr.count("error: "), 1, said)
        for word in words:
            self.assertIn(word, done.stderr, said)
        return done

    def close(self, got, expected, relative, what):
        self.assertEqual(len(got), len(expected), what)
        for step, (a, b) in enumerate(zip(got, expected)):
            self.assertTrue(abs(a - b) <= relative * abs(b), f"{what}, step {step}: {a!r} is not {b!r} within {relative:g} relative")


# ---- .npz by hand -------------------------------------------------------------------------------------------------------------------

def npy(dtype, shape, data):
    """The bytes of a .npy file: `dtype` as NumPy writes it ("<i8"), data as bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({''.join(f'{size}, ' for size in shape)}), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def read_npz(path):
    """name -> (dtype, shape, bytes)."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            raw = archive.read(entry)
            size = struct.unpack_from("<H", raw, 8)[0]
            header = raw[10:10 + size].decode()
            fields = eval(header, {"__builtins__": {}})  # a literal of Python, written by NumPy
            arrays[entry[:-len(".npy")]] = (fields["descr"], list(fields["shape"]), raw[10 + size:])
    return arrays


def write_npz(path, arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, (dtype, shape, data) in arrays.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), npy(dtype, shape, data))
    return path


def read_safetensors(path):
    """name -> (dtype, shape, bytes)."""
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    body = raw[8 + size:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()}


# ---- .onnx by hand: protobuf's wire format, as onnx.proto numbers the fields -----------------------------------------------------------

def varint(value):
    value %= 1 << 64  # negative ones as two's complement
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    if isinstance(content, str):
        content = content.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


FLOAT, INT64 = 1, 7


def onnx_attribute(name, value):
    """A number, a text or a list of integers."""
    if isinstance(value, float):
        return block(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return block(1, name) + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return block(1, name) + block(4, value) + number(20, 3)
    return block(1, name) + b"".join(number(8, entry) for entry in value) + number(20, 7)


def onnx_node(op, inputs, outputs, name, **attributes):
    return b"".join([block(1, i) for i in inputs] + [block(2, o) for o in outputs] + [block(3, name), block(4, op)] +
                    [block(5, onnx_attribute(key, value)) for key, value in attributes.items()])


def onnx_value(name, dtype, shape):
    dims = b"".join(block(1, number(1, size)) for size in shape)
    return block(1, name) + block(2, block(1, number(1, dtype) + block(2, dims)))


def onnx_tensor(name, shape, values):
    return b"".join(number(1, size) for size in shape) + number(2, FLOAT) + block(8, name) + block(9, struct.pack(f"<{len(values)}f", *values))


def onnx_external_tensor(name, shape, location):
    return (b"".join(number(1, size) for size in shape) + number(2, FLOAT) + block(8, name) +
            block(13, block(1, "location") + block(2, location)) + number(14, 1))


def onnx_model(nodes, initializers, inputs, outputs, opset=20):
    graph = b"".join([block(1, n) for n in nodes] + [block(2, "graph")] + [block(5, t) for t in initializers] +
                     [block(11, i) for i in inputs] + [block(12, o) for o in outputs])
    return number(1, 9) + block(7, graph) + block(8, number(2, opset))


def main():
    if not os.access(KERF, os.X_OK):
        sys.exit(f"{KERF} is not there: build first, or set KERF")
    unittest.main(verbosity=2)
