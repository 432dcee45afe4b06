# SPDX-License-Identifier: Apache-2.0
"""Convolutional nets as .onnx files, written by hand: one small enough to train, and one of ResNet-50's structure for planning."""
import math
import random
import struct

from support import FLOAT, INT64, onnx_external_tensor, onnx_model, onnx_node, onnx_tensor, onnx_value, write_npz


class Net:
    """Nodes and weights in order; every method gives the name of what it made. Weights are random, or absent: only their shapes are then told."""

    def __init__(self, weights=True):
        self.nodes, self.initializers, self.weights, self.count, self.random = [], [], weights, 0, random.Random(7)

    def op(self, op, *inputs, name=None, outputs=1, **attributes):
        self.count += 1
        name = name or f"{op.lower()}_{self.count}"
        self.nodes.append(onnx_node(op, inputs, [name] + [f"{name}_{i}" for i in range(1, outputs)], f"node_{name}", **attributes))
        return name

    def weight(self, name, shape, scale=None, offset=0.0):
        if not self.weights:
            self.initializers.append(onnx_external_tensor(name, shape, "weights.bin"))
            return name
        scale = scale or 1 / math.sqrt(math.prod(shape[1:]) or 1)
        values = [offset + self.random.gauss(0, scale) for _ in range(math.prod(shape))]
        self.initializers.append(onnx_tensor(name, shape, values))
        return name

    def conv(self, x, name, channels, outputs, size, stride=1, groups=1, dilation=1, pads=None, bias=False):
        inputs = [x, self.weight(f"{name}.weight", [outputs, channels // groups, size, size])]
        if bias:
            inputs.append(self.weight(f"{name}.bias", [outputs], 0.1))
        reach = (size - 1) * dilation
        return self.op("Conv", *inputs, strides=[stride, stride], group=groups, dilations=[dilation, dilation],
                       pads=pads or [reach // 2, reach // 2, reach - reach // 2, reach - reach // 2])

    def norm(self, x, name, channels, training=False):
        """Batch normalization; running statistics are buffers by their names."""
        inputs = [x, self.weight(f"{name}.weight", [channels], 0.1, 1.0), self.weight(f"{name}.bias", [channels], 0.1),
                  self.weight(f"{name}.running_mean", [channels], 0.1), self.weight(f"{name}.running_var", [channels], 0.05, 1.0)]
        if training:
            return self.op("BatchNormalization", *inputs, outputs=3, training_mode=1, momentum=0.75, epsilon=1e-3)
        return self.op("BatchNormalization", *inputs, epsilon=1e-3)

    def model(self, logits, images, classes):
        self.op("SoftmaxCrossEntropyLoss", logits, "labels", name="loss")
        return onnx_model(self.nodes, self.initializers, [onnx_value("images", FLOAT, images), onnx_value("labels", INT64, images[:1])],
                          [onnx_value("loss", FLOAT, [])])


class NetFromSeed(Net):
    """A net whose weights are initialized from --seed; its file contains the running statistics only."""

    def weight(self, name, shape, scale=None, offset=0.0):
        self.weights = ".running_" in name
        return super().weight(name, shape, scale, offset)


def small_net(batch=6, training=False):
    """Every kind of window: strides, groups, dilation, uneven padding, both poolings, a residual, sizes that nothing divides."""
    net = Net()
    x = net.op("Relu", net.norm(net.conv("images", "stem", 3, 10, 3, stride=2, pads=[0, 1, 2, 1]), "norm", 10, training))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1])
    y = net.conv(net.op("LeakyRelu", net.conv(x, "grouped", 10, 10, 3, groups=5), alpha=0.1), "dilated", 10, 10, 2, dilation=2)
    x = net.op("Add", x, net.norm(y, "norm2", 10, training))
    x = net.op("AveragePool", x, kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1])
    x = net.op("Relu", net.conv(x, "depthwise", 10, 20, 3, groups=10, bias=True))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    logits = net.op("Gemm", x, net.weight("head.weight", [7, 20]), net.weight("head.bias", [7], 0.1), transB=1)
    return net.model(logits, [batch, 3, 13, 11], 7)


def small_batches(path, batch=6, steps=3):
    rnd = random.Random(11)
    images = struct.pack(f"<{steps * batch * 3 * 13 * 11}f", *(rnd.gauss(0, 1) for _ in range(steps * batch * 3 * 13 * 11)))
    labels = struct.pack(f"<{steps * batch}q", *(rnd.randrange(7) for _ in range(steps * batch)))
    return write_npz(path, {"images": ("<f4", [steps, batch, 3, 13, 11], images), "labels": ("<i8", [steps, batch], labels)})


def resnet50(batch, size=224, classes=1000, net=None, blocks_of_stages=(3, 4, 6, 3)):
    """The structure of ResNet-50 (He, Zhang, Ren and Sun, 2016) in training mode, weights absent unless `net` has some."""
    net = net or Net(weights=False)

    def unit(x, name, channels, outputs, kernel, stride=1):
        return net.norm(net.conv(x, f"{name}.conv", channels, outputs, kernel, stride, pads=[kernel // 2] * 4), f"{name}.norm", outputs, True)

    x = net.op("MaxPool", net.op("Relu", unit("images", "stem", 3, 64, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, blocks in enumerate(blocks_of_stages):
        width, outputs = 64 << stage, 256 << stage
        for index in range(blocks):
            name, stride = f"stages.{stage}.{index}", 2 if stage and not index else 1
            y = net.op("Relu", unit(x, f"{name}.1", channels, width, 1))
            y = net.op("Relu", unit(y, f"{name}.2", width, width, 3, stride))
            y = unit(y, f"{name}.3", width, outputs, 1)
            shortcut = x if index else unit(x, f"{name}.shortcut", channels, outputs, 1, stride)
            x, channels = net.op("Relu", net.op("Add", y, shortcut)), outputs
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    logits = net.op("Gemm", x, net.weight("head.weight", [classes, channels]), net.weight("head.bias", [classes]), transB=1)
    return net.model(logits, [batch, 3, size, size], classes)
