# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs of operators that Kerf reads: shapes, operands and fan-out by chance, a loss of everything that nothing else uses, and
data to train it with. Values stay near 1, and no operator is at a border where a rounding decides."""
import math
import struct

from support import FLOAT, INT64, block, number, onnx_model, onnx_node, onnx_tensor, onnx_value, write_npz

MOST_ELEMENTS = 4096  # of one tensor


def integer_tensor(name, shape, values):
    return (b"".join(number(1, size) for size in shape) + number(2, INT64) + block(8, name) +
            block(9, struct.pack(f"<{len(values)}q", *values)))


BOOL = 9


def scalar(name, value):
    """A floating number, or a truth value."""
    if isinstance(value, bool):
        return number(2, BOOL) + block(8, name) + block(9, struct.pack("<?", value))
    return onnx_tensor(name, [], [value])


class Graph:
    def __init__(self, rnd):
        self.rnd, self.nodes, self.initializers, self.inputs, self.data = rnd, [], [], [], {}
        self.shapes, self.used, self.count, self.ops = {}, set(), 0, []

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def add(self, op, operands, shape, outputs=1, **attributes):
        """A node; gives the name of its first output, of that shape; None: it is no floating tensor. Further outputs are the caller's to
        declare."""
        names = [self.name("t") for _ in range(outputs)]
        self.nodes.append(onnx_node(op, operands, names, f"node_{names[0]}", **attributes))
        self.used.update(operands)
        self.ops.append(op)
        if shape is not None:
            self.shapes[names[0]] = list(shape)
        return names[0] if outputs == 1 else names

    def parameter(self, shape, scale=1.0, around=0.0):
        name = self.name("w")
        self.initializers.append(onnx_tensor(name, shape, [around + self.rnd.uniform(-scale, scale) for _ in range(math.prod(shape))]))
        return name

    def dropout(self, x, rate, training=True):
        """As PyTorch exports it."""
        ratio, mode = self.name("onnx::"), self.name("onnx::")
        self.initializers += [scalar(ratio, rate), scalar(mode, training)]
        return self.add("Dropout", [x, ratio, mode], self.shapes[x])

    def floats(self, values):
        """A constant: its name is one that an exporter makes up."""
        name = self.name("onnx::")
        self.initializers.append(onnx_tensor(name, [len(values)], values))
        return name

    def integers(self, values, shape=None):
        name = self.name("onnx::")
        self.initializers.append(integer_tensor(name, [len(values)] if shape is None else shape, values))
        return name

    def input(self, shape, steps):
        name = self.name("x")
        self.inputs.append(onnx_value(name, FLOAT, shape))
        values = [self.rnd.uniform(-1.5, 1.5) for _ in range(steps * math.prod(shape))]
        self.data[name] = ("<f4", [steps, *shape], struct.pack(f"<{len(values)}f", *values))
        self.shapes[name] = list(shape)
        return name

    def index_input(self, shape, below, steps):
        name = self.name("i")
        self.inputs.append(onnx_value(name, INT64, shape))
        values = [self.rnd.randrange(below) for _ in range(steps * math.prod(shape))]
        self.data[name] = ("<i8", [steps, *shape], struct.pack(f"<{len(values)}q", *values))
        return name


def bounded(g, x):
    """Values that are not large, for what would make them larger."""
    return g.add("Tanh", [x], g.shapes[x])


def broadcast_to(g, x):
    """Something of the shape of x."""
    return g.rnd.choice([name for name, shape in g.shapes.items() if shape == g.shapes[x]])


def image_of(g, x):
    """x as [samples, channels, height, width], or None."""
    shape = g.shapes[x]
    if len(shape) == 4:
        return x
    return g.add("Reshape", [x, g.integers([1] * (4 - len(shape)) + shape)], [1] * (4 - len(shape)) + shape) if len(shape) < 4 else None


def random_graph(rnd, parts, most_ops=40, steps=3):
    """Of `parts` (PARTS of graph_parts.py, or LAYERS of graph_layers.py with them): (bytes of the model, data for `steps` steps, names of the
    operators)."""
    g = Graph(rnd)
    g.steps = steps
    for _ in range(rnd.randint(1, 2)):
        g.input([rnd.randint(1, 6) for _ in range(rnd.randint(2, 4))], steps)
    wanted = rnd.randint(3, most_ops)
    while len(g.ops) < wanted:
        # Later tensors more often, so that graphs become deep; earlier ones give fan-out.
        names = [name for name, shape in g.shapes.items() if shape]
        x = names[min(int(len(names) * rnd.betavariate(2.5, 1)), len(names) - 1)]
        before = set(g.shapes)
        rnd.choice(parts)(g, x)
        for name in set(g.shapes) - before:
            if math.prod(g.shapes[name]) > MOST_ELEMENTS or len(g.shapes[name]) > 5:
                del g.shapes[name]  # nothing more is made of it
    ends = [name for name in g.shapes if name not in g.used] or [next(iter(g.shapes))]
    loss = None
    for end in ends:
        share = g.add("ReduceMean", [g.add("Tanh", [end], g.shapes[end])], [], keepdims=0)
        loss = g.add("Add", [loss, share], []) if loss else share
    scaled = g.add("Mul", [loss, g.parameter([1], 0.2, 1)], [1])  # so that there is a parameter
    g.nodes.append(onnx_node("ReduceSum", [scaled], ["loss"], "loss", keepdims=0))
    return onnx_model(g.nodes, g.initializers, g.inputs, [onnx_value("loss", FLOAT, [])], opset=23), g.data, g.ops
