# SPDX-License-Identifier: Apache-2.0
"""What random graphs are made of: each part adds a node, or a few, that read `x`; gives the new tensor, or None where nothing suits."""
import math

from graphs import bounded, broadcast_to, image_of
from support import onnx_node, onnx_tensor


UNARY = ["Tanh", "Sigmoid", "Relu", "LeakyRelu", "Elu", "Celu", "Selu", "Gelu", "Softplus", "Mish", "HardSwish", "HardSigmoid", "Softsign", "Abs",
         "Neg", "Sin", "Cos", "Erf", "Identity", "Shrink", "ThresholdedRelu", "Asinh"]
REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"]


def unary(g, x):
    return g.add(g.rnd.choice(UNARY), [x], g.shapes[x])


def positive(g, x):
    """A root or a logarithm of what is at least 1."""
    square = g.add("Mul", [x, x], g.shapes[x])
    one = g.add("Add", [square, g.floats([1.0])], g.shapes[x])
    return g.add(g.rnd.choice(["Sqrt", "Log", "Reciprocal"]), [one], g.shapes[x])


def broadcastable(g, shape):
    """A tensor of the pool of that shape, or a parameter that broadcasts to it."""
    same = [name for name, other in g.shapes.items() if other == shape]
    if g.rnd.random() < 0.5:
        return g.rnd.choice(same)
    return g.parameter([size if g.rnd.random() < 0.6 else 1 for size in shape[g.rnd.randint(0, len(shape)):]])


def binary(g, x):
    shape = g.shapes[x]
    operands = [bounded(g, x), broadcastable(g, shape)]
    if g.rnd.random() < 0.5:
        operands.reverse()
    return g.add(g.rnd.choice(["Add", "Sub", "Mul", "Max", "Min"]), operands, shape)


def dropout(g, x):
    return g.dropout(x, g.rnd.uniform(0.1, 0.6))


def steps(g, x):
    """A fraction, whose slope is 1: what is a step has none. Whole numbers are no border."""
    moved = g.add("Add", [x, g.floats([g.rnd.uniform(0.1, 0.4)])], g.shapes[x])
    return g.add("Sub", [x, g.add(g.rnd.choice(["Floor", "Ceil", "Round", "Sign"]), [moved], g.shapes[x])], g.shapes[x])


def divide(g, x):
    below = g.add("Add", [g.add("Sigmoid", [broadcast_to(g, x)], g.shapes[x]), g.floats([0.5])], g.shapes[x])
    return g.add("Div", [x, below], g.shapes[x])


def where(g, x):
    other = broadcast_to(g, x)
    name = g.name("p")
    g.nodes.append(onnx_node(g.rnd.choice(["Greater", "Less"]), [x, g.floats([g.rnd.uniform(-1, 1)])], [name], f"node_{name}"))
    return g.add("Where", [name, x, other], g.shapes[x])


def clip(g, x):
    low, high = g.name("onnx::"), g.name("onnx::")
    for name, value in ((low, g.rnd.uniform(-1, -0.1)), (high, g.rnd.uniform(0.1, 1))):
        g.initializers.append(onnx_tensor(name, [], [value]))
    return g.add("Clip", [x, low, high], g.shapes[x])


def product(g, x):
    shape = g.shapes[x]
    if len(shape) < 2:
        return unary(g, x)
    width, out = shape[-1], g.rnd.randint(1, 7)
    y = g.add("MatMul", [x, g.parameter([width, out], width ** -0.5)], shape[:-1] + [out])
    return g.add("Add", [y, g.parameter([out])], shape[:-1] + [out]) if g.rnd.random() < 0.5 else y


def gemm(g, x):
    shape = g.shapes[x]
    rows = math.prod(shape[:-1]) if shape else 1
    flat = g.add("Reshape", [x, g.integers([rows, shape[-1]])], [rows, shape[-1]])
    out, turned = g.rnd.randint(1, 7), g.rnd.randint(0, 1)
    w = g.parameter([out, shape[-1]] if turned else [shape[-1], out], shape[-1] ** -0.5)
    return g.add("Gemm", [flat, w, g.parameter([out])], [rows, out], transB=turned, alpha=g.rnd.uniform(0.5, 1.5))


def scores(g, x):
    """x times another tensor's transpose, batch by batch."""
    shape = g.shapes[x]
    if len(shape) < 3:
        return product(g, x)
    order = list(range(len(shape) - 2)) + [len(shape) - 1, len(shape) - 2]
    turned = g.add("Transpose", [bounded(g, broadcast_to(g, x))], shape[:-2] + [shape[-1], shape[-2]], perm=order)
    y = g.add("MatMul", [bounded(g, x), turned], shape[:-1] + [shape[-2]])
    return g.add("Softmax", [y], g.shapes[y], axis=-1) if g.rnd.random() < 0.5 else y


def einsum(g, x):
    letters = "abcde"[:len(g.shapes[x])]
    kept = "".join(g.rnd.sample(letters, g.rnd.randint(1, len(letters))))
    other = "".join(g.rnd.sample(letters, g.rnd.randint(1, len(letters))))
    sizes = dict(zip(letters, g.shapes[x]))
    new = g.rnd.randint(1, 5)
    shape = [sizes[c] for c in other] + [new]
    equation = f"{letters},{other}z->{kept}z" if g.rnd.random() < 0.7 else f"{other}z,{letters}->z{kept}"
    summed = math.prod(sizes[c] for c in letters if c not in kept)
    w = g.parameter(shape, 1 / math.sqrt(summed))
    kept_sizes = [sizes[c] for c in kept]
    operands, result = ([x, w], kept_sizes + [new]) if equation.endswith("z") else ([w, x], [new] + kept_sizes)
    return g.add("Einsum", operands, result, equation=equation)


def reduce(g, x):
    shape = g.shapes[x]
    axes = sorted(g.rnd.sample(range(len(shape)), g.rnd.randint(1, len(shape))))
    keep = g.rnd.randint(0, 1)
    kept = [1 if d in axes else size for d, size in enumerate(shape)] if keep else [size for d, size in enumerate(shape) if d not in axes]
    op = g.rnd.choice(REDUCTIONS)
    if op == "ReduceL2":  # no slope at zero
        x = g.add("Add", [bounded(g, x), g.floats([2.0])], shape)
    elif op not in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceLogSumExp"):
        x = g.add("Mul", [bounded(g, x), g.floats([1 / math.prod(shape[d] for d in axes)])], shape)
    if g.rnd.random() < 0.5:
        axes = [axis - len(shape) for axis in axes]
    return g.add(op, [x, g.integers(axes)], kept, keepdims=keep)


def shares(g, x):
    return g.add(g.rnd.choice(["Softmax", "LogSoftmax"]), [x], g.shapes[x], axis=g.rnd.randrange(-len(g.shapes[x]), len(g.shapes[x])))


def norm(g, x):
    shape = g.shapes[x]
    axis = g.rnd.randrange(len(shape))
    row = shape[axis:]
    if math.prod(row) < 2:
        return unary(g, x)
    scale = g.parameter(row, 0.5, 1)
    return g.add("LayerNormalization", [x, scale, g.parameter(row)], shape, axis=axis, epsilon=0.01)


def channel_norm(g, x):
    shape = g.shapes[x]
    if len(shape) < 3 or math.prod(shape[2:]) < 2:
        return unary(g, x)
    operands = [x, g.parameter(shape[1:2], 0.5, 1), g.parameter(shape[1:2])]
    return g.add("InstanceNormalization", operands, shape, epsilon=0.01)


def reshape(g, x):
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    divisors = [k for k in range(2, shape[d]) if shape[d] % k == 0]
    if divisors and len(shape) < 5 and g.rnd.random() < 0.6:
        k = g.rnd.choice(divisors)
        shape[d:d + 1] = [k, shape[d] // k]
    elif len(shape) > 1 and d + 1 < len(shape):
        shape[d:d + 2] = [shape[d] * shape[d + 1]]
    else:
        shape.insert(d, 1)
    wanted = list(shape)
    if g.rnd.random() < 0.3:
        wanted[g.rnd.randrange(len(wanted))] = -1
    return g.add("Reshape", [x, g.integers(wanted)], shape)


def transpose(g, x):
    order = list(range(len(g.shapes[x])))
    g.rnd.shuffle(order)
    return g.add("Transpose", [x], [g.shapes[x][d] for d in order], perm=order)


def cut(g, x):
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    size, step = shape[d], g.rnd.choice([1, 1, 2, -1])
    start = g.rnd.randrange(size)
    places = list(range(start, size, step)) if step > 0 else list(range(start, -1, step))
    end = size if step > 0 else -size - 1
    shape[d] = len(places)
    return g.add("Slice", [x, g.integers([start]), g.integers([end]), g.integers([d]), g.integers([step])], shape)


def split(g, x):
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    if shape[d] < 2:
        return unary(g, x)
    first = g.rnd.randint(1, shape[d] - 1)
    sizes = [first, shape[d] - first]
    names = g.add("Split", [x, g.integers(sizes)], [], outputs=2, axis=d)
    for name, size in zip(names, sizes):
        g.shapes[name] = shape[:d] + [size] + shape[d + 1:]
    return names[0]


def join(g, x):
    shape = g.shapes[x]
    d = g.rnd.randrange(len(shape))
    fitting = [name for name, other in g.shapes.items() if len(other) == len(shape) and other[:d] + other[d + 1:] == shape[:d] + shape[d + 1:]]
    parts = [x] + [g.rnd.choice(fitting) for _ in range(g.rnd.randint(1, 2))]
    return g.add("Concat", parts, shape[:d] + [sum(g.shapes[p][d] for p in parts)] + shape[d + 1:], axis=d)


def pad(g, x):
    shape = g.shapes[x]
    mode = g.rnd.choice(["constant", "reflect", "edge"])
    most = [min(2, size - 1) if mode == "reflect" else 2 for size in shape]
    low, high = [g.rnd.randint(0, m) for m in most], [g.rnd.randint(0, m) for m in most]
    return g.add("Pad", [x, g.integers(low + high)], [a + size + b for a, size, b in zip(low, shape, high)], mode=mode)


def spread(g, x):
    shape = g.shapes[x]
    if g.rnd.random() < 0.5:
        return g.add("Expand", [x, g.integers([2] + [1] * len(shape))], [2] + shape) if len(shape) < 4 else unary(g, x)
    repeats = [g.rnd.randint(1, 2) for _ in shape]
    return g.add("Tile", [x, g.integers(repeats)], [r * size for r, size in zip(repeats, shape)])


def look_up(g, x):
    shape = g.shapes[x]
    d, count = g.rnd.randrange(len(shape)), g.rnd.randint(1, 4)
    if g.rnd.random() < 0.5:
        at = g.integers([g.rnd.randrange(-shape[d], shape[d]) for _ in range(count)])
    else:
        at = g.index_input([count], shape[d], g.steps)
    return g.add("Gather", [x, at], shape[:d] + [count] + shape[d + 1:], axis=d)


def look_up_elements(g, x):
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    size = shape[d]
    shape[d] = g.rnd.randint(1, 3)
    at = g.integers([g.rnd.randrange(size) for _ in range(math.prod(shape))], shape)
    return g.add("GatherElements", [x, at], shape, axis=d)


def scatter(g, x):
    shape = g.shapes[x]
    count = g.rnd.randint(1, shape[0])
    rows = g.rnd.sample(range(shape[0]), count)
    if g.rnd.random() < 0.5:
        at, how, updates = g.integers(rows, [count, 1]), g.rnd.choice(["none", "add", "mul", "max"]), g.parameter([count] + shape[1:])
    else:
        at, how, updates = g.index_input([count, 1], shape[0], g.steps), "add", g.parameter([count] + shape[1:])
    return g.add("ScatterND", [bounded(g, x), at, updates], shape, reduction=how)


def largest(g, x):
    shape = list(g.shapes[x])
    d = g.rnd.randrange(len(shape))
    count = g.rnd.randint(1, shape[d])
    shape[d] = count
    names = g.add("TopK", [x, g.integers([count])], [], outputs=2, axis=d, largest=g.rnd.randint(0, 1))
    g.shapes[names[0]] = shape
    return names[0]


def running_sum(g, x):
    shape = g.shapes[x]
    d = g.rnd.randrange(len(shape))
    small = g.add("Mul", [x, g.floats([1 / shape[d]])], shape)
    return g.add("CumSum", [small, g.integers([d], [])], shape, exclusive=g.rnd.randint(0, 1), reverse=g.rnd.randint(0, 1))


def triangle(g, x):
    if len(g.shapes[x]) < 2:
        return unary(g, x)
    return g.add("Trilu", [x, g.integers([g.rnd.randint(-1, 2)], [])], g.shapes[x], upper=g.rnd.randint(0, 1))


def convolution(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    n, c, *sizes = g.shapes[x]
    groups = g.rnd.choice([k for k in range(1, c + 1) if c % k == 0])
    out = groups * g.rnd.randint(1, 3)
    window, strides = [g.rnd.randint(1, 3) for _ in sizes], [g.rnd.randint(1, 2) for _ in sizes]
    dilations, pads = [g.rnd.randint(1, 2) for _ in sizes], [g.rnd.randint(0, 2) for _ in range(4)]
    places = [(size + pads[i] + pads[i + 2] - (window[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i, size in enumerate(sizes)]
    if min(places) < 1:
        return None
    w = g.parameter([out, c // groups, *window], (c // groups * math.prod(window)) ** -0.5)
    return g.add("Conv", [x, w, g.parameter([out])], [n, out, *places], group=groups, strides=strides, dilations=dilations, pads=pads)


def turned_convolution(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    n, c, *sizes = g.shapes[x]
    out, window, strides = g.rnd.randint(1, 3), [g.rnd.randint(1, 3) for _ in sizes], [g.rnd.randint(1, 2) for _ in sizes]
    places = [(size - 1) * strides[i] + window[i] for i, size in enumerate(sizes)]
    w = g.parameter([c, out, *window], (c * math.prod(window)) ** -0.5)
    return g.add("ConvTranspose", [x, w], [n, out, *places], strides=strides)


def pool(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    n, c, *sizes = g.shapes[x]
    window, strides = [g.rnd.randint(1, min(3, size)) for size in sizes], [g.rnd.randint(1, 2) for _ in sizes]
    places = [(size - window[i]) // strides[i] + 1 for i, size in enumerate(sizes)]
    return g.add(g.rnd.choice(["MaxPool", "AveragePool"]), [x], [n, c, *places], kernel_shape=window, strides=strides)


def whole_pool(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    return g.add(g.rnd.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x], g.shapes[x][:2] + [1, 1])


def resize(g, x):
    x = image_of(g, x)
    if x is None:
        return None
    scales = [1.0, 1.0] + [float(g.rnd.randint(1, 2)) for _ in range(2)]
    shape = [int(size * scale) for size, scale in zip(g.shapes[x], scales)]
    return g.add("Resize", [x, "", g.floats(scales)], shape, mode=g.rnd.choice(["nearest", "linear", "cubic"]))


PARTS = [unary, unary, unary, positive, binary, binary, binary, divide, dropout, steps, where, clip, product, product, product, gemm, scores,
             einsum, reduce, reduce, shares, norm, channel_norm, reshape, reshape, transpose, transpose, cut, split, join, pad, spread, look_up, look_up_elements,
             scatter, largest, running_sum, triangle, convolution, turned_convolution, pool, whole_pool, resize]
