# SPDX-License-Identifier: Apache-2.0
"""Layers: perceptrons, convolutions, norms, recurrent networks."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import BATCH, CLASSES, SIDE, WIDTH, Classifier, case, features, images, series, targets


@case(features)
class Perceptron(Classifier):
    def __init__(self):
        super().__init__()
        self.logits = nn.Sequential(nn.Linear(WIDTH, 12), nn.ReLU(), nn.Linear(12, CLASSES))


@case(targets)
class RegressionMse(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, CLASSES))

    def forward(self, x, y):
        return F.mse_loss(self.net(x), y)


@case(images)
class ConvNet(Classifier):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, stride=2), nn.SiLU(), nn.Flatten())
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(self.net(x))


@case(images, "bn1", "bn2")
class ConvBatchNorm(Classifier):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


@case(features, "bn")
class BatchNorm1d(Classifier):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.fc2 = nn.Linear(WIDTH, 12), nn.BatchNorm1d(12), nn.Linear(12, CLASSES)

    def logits(self, x):
        return self.fc2(torch.tanh(self.bn(self.fc1(x))))


@case(images, "down.1", "up.1")
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.Sequential(nn.Conv2d(8, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Conv2d(4, CLASSES, 1)

    def forward(self, x, labels):
        high = self.down(x)
        low = F.interpolate(F.relu(self.middle(F.max_pool2d(high, 2))), scale_factor=2, mode="nearest")
        logits = self.head(self.up(torch.cat([high, low], 1)))
        return F.cross_entropy(logits, labels[:, None, None].expand(BATCH, SIDE, SIDE))


@case(images)
class Depthwise(Classifier):
    def __init__(self):
        super().__init__()
        self.stem, self.depth, self.point = nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6, padding=1), nn.Conv2d(6, 8, 1)
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(F.hardswish(self.point(self.depth(self.stem(x)))).mean((2, 3)))


@case(lambda g: {"x": torch.randn(BATCH, 3, SIDE, SIDE, generator=g)})
class TransposedConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 5, 4, stride=2, padding=1)
        self.decode = nn.ConvTranspose2d(5, 3, 4, stride=2, padding=1)

    def forward(self, x):
        return F.mse_loss(self.decode(F.elu(self.encode(x))), x)


@case(series)
class DilatedConv1d(Classifier):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(WIDTH, 7, 2, dilation=2), nn.Linear(7, CLASSES)

    def logits(self, x):
        return self.head(torch.tanh(self.conv(x.transpose(1, 2))).amax(2))


@case(images, "net.1")
class GroupNorm(Classifier):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(3, 6), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.GroupNorm(1, 8), nn.ReLU())
        self.head = nn.Linear(8, CLASSES)

    def logits(self, x):
        return self.head(self.net(x).mean((2, 3)))


@case(images)
class SqueezeExcite(Classifier):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, stride=2), nn.InstanceNorm2d(8, affine=True)
        self.squeeze, self.excite, self.act, self.head = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1), nn.PReLU(8), nn.Linear(8, CLASSES)

    def logits(self, x):
        x = self.act(self.norm(self.stem(x)))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return self.head((x * gate).mean((2, 3)))


@case(series)
class Lstm(Classifier):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(WIDTH, 7, batch_first=True), nn.Linear(7, CLASSES)

    def logits(self, x):
        return self.head(self.rnn(x)[0][:, -1])


@case(series)
class Gru(Lstm):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(WIDTH, 7, batch_first=True)


@case(series)
class Rnn(Lstm):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(WIDTH, 7, batch_first=True)


@case(series)
class BidirectionalLstm(Classifier):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(WIDTH, 5, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(10, CLASSES)

    def logits(self, x):
        return self.head(self.rnn(x)[0].mean(1))


@case(series, "ropout")
class LstmWithDropout(Lstm):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(WIDTH, 7, num_layers=2, dropout=0.2, batch_first=True)
