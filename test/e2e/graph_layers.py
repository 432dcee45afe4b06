# SPDX-License-Identifier: Apache-2.0
"""More of what random graphs are made of (see graph_parts.py): layers of models, and operators that few models have."""
import math

from graphs import bounded, broadcast_to, image_of
from support import FLOAT, INT64, onnx_node, onnx_tensor

CURVES = {"Exp": 1.0, "Sinh": 1.0, "Cosh": 1.0, "Tan": 0.5, "Atanh": 0.5, "Atan": 2.0, "Asin": 0.9, "Acos": 0.9}  # of a bounded value times this

ROUNDED = [17, 18, 19, 20, 23]  # ONNX's numbers of FLOAT8E4M3FN and its like, and FLOAT4E2M1


def curve(g, x):
    op = g.rnd.choice([*CURVES, "Acosh", "Pow"])
    if op in CURVES:
        return g.add(op, [g.add("Mul", [bounded(g, x), g.floats([CURVES[op]])], g.shapes[x])], g.shapes[x])
    above = g.add("Add", [g.add("Sigmoid", [x], g.shapes[x]), g.floats([1.2])], g.shapes[x])
    return g.add(op, [above] if op == "Acosh" else [above, g.floats([g.rnd.choice([-1.0, 2.0, 2.5])])], g.shapes[x])


def rounded(g, x):
    """Through numbers of 8 or 4 bits: what is generic lies at no border of theirs."""
    name = g.name("f")
    generic = g.add("Mul", [bounded(g, x), g.parameter([1], 0.3, 1)], g.shapes[x])
    g.nodes.append(onnx_node("Cast", [generic], [name], f"node_{name}", to=g.rnd.choice(ROUNDED)))
    g.used.add(generic)
    return g.add("Cast", [name], g.shapes[x], to=FLOAT)


def slopes(g, x):
    return g.add("PRelu", [x, g.parameter(g.shapes[x][-1:], 0.5)], g.shapes[x])


def several(g, x):
    shape = g.shapes[x]
    return g.add(g.rnd.choice(["Mean", "Sum"]), [x, bounded(g, broadcast_to(g, x)), g.parameter(shape[-1:])], shape)


def truth(g, op, operands):
    name = g.name("p")
    g.nodes.append(onnx_node(op, operands, [name], f"node_{name}"))
    g.used.update(operands)
    return name


def logic(g, x):
    bounds = [truth(g, g.rnd.choice(["LessOrEqual", "GreaterOrEqual"]), [x, g.floats([g.rnd.uniform(-1, 1)])]) for _ in range(2)]
    both = truth(g, g.rnd.choice(["And", "Or", "Xor", "Equal"]), bounds)
    odd = truth(g, g.rnd.choice(["IsNaN", "IsInf"]), [x])
    chosen = truth(g, "Or", [truth(g, "Not", [both]), odd])
    return g.add("Where", [chosen, x, broadcast_to(g, x)], g.shapes[x])


def whole_part(g, x):
    """What is left of a number without its whole part; whole numbers are no border."""
    shape = g.shapes[x]
    moved = g.add("Add", [g.add("Mul", [bounded(g, x), g.floats([3.0])], shape), g.floats([g.rnd.uniform(0.1, 0.4)])], shape)
    whole = g.add("Cast", [g.add("Cast", [moved], None, to=INT64)], shape, to=FLOAT)
    return g.add("Sub", [moved, whole], shape)


def bits(g, x):
    """A factor for each of the last dimension, made of integers that come with the data."""
    size = g.shapes[x][-1]
    given = g.index_input([size], 16, g.steps)
    op = g.rnd.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
    made = g.add(op, [given, g.integers([g.rnd.randrange(16)])], None)
    factor = g.add("Mul", [g.add("Cast", [made], [size], to=FLOAT), g.floats([1 / 16])], [size])
    return g.add("Mul", [x, factor], g.shapes[x])


def one_hot(g, x):
    """Which is the largest, as a mask of a parameter."""
    shape = g.shapes[x]
    if g.rnd.random() < 0.3:
        mask = g.add("Hardmax", [x], shape, axis=-1)
    else:
        indices = g.add(g.rnd.choice(["ArgMax", "ArgMin"]), [x], None, axis=-1, keepdims=0)
        mask = g.add("OneHot", [indices, g.integers([shape[-1]]), g.floats([0.1, 1.0])], shape)
    return g.add("Mul", [mask, g.add("Add", [x, g.parameter(shape[-1:])], shape)], shape)


def ranks(g, x):
    """One dimension more, one less, or two."""
    shape = list(g.shapes[x])
    d, op = g.rnd.randrange(len(shape)), g.rnd.choice(["Squeeze", "Unsqueeze", "Flatten"])
    if op == "Flatten":
        return g.add(op, [x], [math.prod(shape[:d]), math.prod(shape[d:])], axis=d)
    if op == "Squeeze" and shape[d] == 1 and len(shape) > 1:
        return g.add(op, [x, g.integers([d])], shape[:d] + shape[d + 1:])
    return g.add("Unsqueeze", [x, g.integers([d])], shape[:d] + [1] + shape[d:])


def blocks(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    n, c, h, w = g.shapes[x]
    if c % 4 == 0:
        return g.add("DepthToSpace", [x], [n, c // 4, 2 * h, 2 * w], blocksize=2, mode=g.rnd.choice(["DCR", "CRD"]))
    return g.add("SpaceToDepth", [x], [n, 4 * c, h // 2, w // 2], blocksize=2) if h % 2 == 0 and w % 2 == 0 else None


def look_up_points(g, x):
    shape = g.shapes[x]
    depth, count = g.rnd.randint(1, len(shape)), g.rnd.randint(1, 4)
    at = [g.rnd.randrange(shape[d]) for _ in range(count) for d in range(depth)]
    return g.add("GatherND", [x, g.integers(at, [count, depth])], [count] + shape[depth:])


def scatter_elements(g, x):
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    rows = list(shape)
    rows[d] = g.rnd.randint(1, shape[d])
    outer, inner = math.prod(shape[:d]), math.prod(shape[d + 1:])
    at = [0] * math.prod(rows)  # each place at most once
    for o in range(outer):
        for i in range(inner):
            for r, place in enumerate(g.rnd.sample(range(shape[d]), rows[d])):
                at[(o * rows[d] + r) * inner + i] = place
    return g.add("ScatterElements", [bounded(g, x), g.integers(at, rows), g.parameter(rows)], shape, axis=d, reduction=g.rnd.choice(["none", "add"]))


def reduce_more(g, x):
    shape = g.shapes[x]
    d, op = g.rnd.randrange(len(shape)), g.rnd.choice(["ReduceProd", "ReduceLogSum", "LpNormalization"])
    near = g.add("Add", [g.add("Mul", [bounded(g, x), g.floats([0.2])], shape), g.floats([1.0])], shape)
    if op == "LpNormalization":
        return g.add(op, [near], shape, axis=d, p=g.rnd.randint(1, 2))
    return g.add(op, [near, g.integers([d])], shape[:d] + [1] + shape[d + 1:], keepdims=1)


def image_norm(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    n, c, h, w = shape = g.shapes[x]
    op = g.rnd.choice(["LRN", "GroupNormalization", "BatchNormalization", "MeanVarianceNormalization"])
    if op == "LRN":
        return g.add(op, [x], shape, size=3, alpha=0.1, beta=0.75)
    apart = g.add("Add", [bounded(g, x), g.parameter(shape, 2.0)], shape)  # so that the variance is not near zero
    if op == "MeanVarianceNormalization":
        return g.add(op, [apart], shape) if n * h * w > 3 else None
    per_channel = [g.parameter([c], 0.5, 1), g.parameter([c])]
    if op == "BatchNormalization":
        if n * h * w < 2:
            return None
        running = [g.name("running") for _ in range(2)]
        g.initializers += [onnx_tensor(name, [c], [float(i)] * c) for i, name in enumerate(running)]
        names = g.add(op, [apart, *per_channel, *running], shape, outputs=3, training_mode=1, epsilon=0.01)
        return names[0]
    groups = g.rnd.choice([k for k in range(1, c + 1) if c % k == 0])
    return g.add(op, [apart, *per_channel], shape, num_groups=groups, epsilon=0.01) if c // groups * h * w > 1 else None


def root_norm(g, x):
    shape = g.shapes[x]
    axis = g.rnd.randrange(len(shape))
    return g.add("RMSNormalization", [x, g.parameter(shape[axis:], 0.5, 1)], shape, axis=axis, epsilon=0.01)


def recurrent(g, x):
    if len(g.shapes[x]) != 3:
        return None
    length, batch, width = g.shapes[x]
    op, hidden, directions = g.rnd.choice(["LSTM", "GRU", "RNN"]), g.rnd.randint(1, 3), g.rnd.randint(1, 2)
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * hidden
    operands = [x, g.parameter([directions, rows, width], width ** -0.5), g.parameter([directions, rows, hidden], 0.5)]
    if g.rnd.random() < 0.7:
        operands.append(g.parameter([directions, 2 * rows]))
    more = {"linear_before_reset": g.rnd.randint(0, 1)} if op == "GRU" else {}
    names = g.add(op, operands, None, outputs=2, hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward", **more)
    g.shapes[names[0]], g.shapes[names[1]] = [length, directions, batch, hidden], [directions, batch, hidden]
    return names[0]


def attention(g, x):
    """Of a tensor that is [samples, heads, tokens, width], to another one or to parameters."""
    if len(g.shapes[x]) != 4:
        return None
    batch, heads, tokens, width = g.shapes[x]
    query = x
    if width % 2 == 0 and g.rnd.random() < 0.5:
        query = rotate(g, x)
    if g.rnd.random() < 0.5:
        key, value, out = broadcast_to(g, x), broadcast_to(g, x), width
    else:
        own = g.rnd.choice([k for k in range(1, heads + 1) if heads % k == 0])
        length, out = g.rnd.randint(1, 6), g.rnd.randint(1, 4)
        key, value = g.parameter([batch, own, length, width]), g.parameter([batch, own, length, out])
    return g.add("Attention", [query, key, value], [batch, heads, tokens, out], is_causal=g.rnd.randint(0, 1))


def rotate(g, x):
    batch, _, tokens, width = g.shapes[x]
    angles = [position * 0.3 ** (2 * i / width) for position in range(tokens + 2) for i in range(width // 2)]
    tables = []
    for function in (math.cos, math.sin):
        tables.append(g.name("onnx::"))
        g.initializers.append(onnx_tensor(tables[-1], [tokens + 2, width // 2], [function(angle) for angle in angles]))
    places = g.index_input([batch, tokens], tokens + 2, g.steps)
    return g.add("RotaryEmbedding", [x, *tables, places], g.shapes[x], interleaved=g.rnd.randint(0, 1))


def sequence(g, x):
    """Taken apart into tensors of equal size and put together again in another order, or one of them."""
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    parts = g.add("SplitToSequence", [x, g.integers([1], [])], None, axis=d)
    if g.rnd.random() < 0.5:
        shape[d] = 1
        return g.add("SequenceAt", [parts, g.integers([g.rnd.randrange(g.shapes[x][d])], [])], shape)
    return g.add("ConcatFromSequence", [parts], shape, axis=d)


def of_its_shape(g, x):
    """Constants that are computed from a shape, as exporters write them."""
    shape = g.shapes[x]
    if len(shape) == 2 and g.rnd.random() < 0.5:
        return g.add("Mul", [x, g.add("EyeLike", [x], shape, k=g.rnd.randint(-1, 1), dtype=FLOAT)], shape)
    made = g.add("ConstantOfShape", [g.add("Shape", [x], None)], None)
    return g.add("Add", [x, g.add("Cos", [made], shape)], shape)


def fourier(g, x):
    """Of real numbers along the last dimension: real and imaginary parts."""
    shape = g.shapes[x]
    half, size = g.rnd.randint(0, 1), shape[-1]
    small = g.add("Mul", [x, g.floats([1 / size])], shape)
    real = g.add("Unsqueeze", [small, g.integers([len(shape)])], shape + [1])
    return g.add("DFT", [real, "", g.integers([len(shape) - 1], [])], shape[:-1] + [size // 2 + 1 if half else size, 2], onesided=half)


def sample(g, x):
    """An image at places that are trained."""
    x = image_of(g, x)
    if x is None:
        return None
    n, c, _, _ = g.shapes[x]
    places = [n, g.rnd.randint(1, 4), g.rnd.randint(1, 4)]
    return g.add("GridSample", [x, g.parameter([*places, 2], 1.3)], [n, c, *places[1:]], mode=g.rnd.choice(["linear", "cubic"]),
                 padding_mode=g.rnd.choice(["zeros", "border", "reflection"]), align_corners=g.rnd.randint(0, 1))


def root_pool(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    n, c, *sizes = g.shapes[x]
    window = [g.rnd.randint(1, min(3, size)) for size in sizes]
    above = g.add("Add", [bounded(g, x), g.floats([2.0])], g.shapes[x])  # no slope at zero
    return g.add("LpPool", [above], [n, c, *(size - w + 1 for size, w in zip(sizes, window))], kernel_shape=window, p=g.rnd.randint(1, 3))


def turn(g, x):
    """Sequences of several lengths, back to front."""
    shape = g.shapes[x]
    if len(shape) < 2:
        return None
    time = g.rnd.randint(0, 1)
    lengths = g.integers([g.rnd.randint(1, shape[time]) for _ in range(shape[1 - time])])
    return g.add("ReverseSequence", [x, lengths], shape, time_axis=time, batch_axis=1 - time)


def crop(g, x):
    shape = [g.rnd.randint(1, size + 2) for size in g.shapes[x]]
    return g.add("CenterCropPad", [x, g.integers(shape)], shape)


def loss(g, x):
    shape = g.shapes[x]
    if len(shape) < 2:
        return None
    rows, classes = math.prod(shape[:-1]), shape[-1]
    flat = g.add("Reshape", [x, g.integers([rows, classes])], [rows, classes])
    labels, how = g.index_input([rows], classes, g.steps), g.rnd.choice(["none", "mean"])
    if g.rnd.random() < 0.5:
        return g.add("SoftmaxCrossEntropyLoss", [flat, labels], [rows] if how == "none" else [], reduction=how)
    return g.add("NegativeLogLikelihoodLoss", [g.add("LogSoftmax", [flat], [rows, classes], axis=-1), labels], [rows] if how == "none" else [], reduction=how)


LAYERS = [curve, curve, rounded, slopes, several, logic, whole_part, bits, one_hot, ranks, blocks, look_up_points, scatter_elements, reduce_more,
          image_norm, image_norm, root_norm, recurrent, recurrent, attention, attention, sequence, of_its_shape, fourier, sample, root_pool, turn, crop, loss]
