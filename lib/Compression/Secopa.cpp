// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compression/Secopa.h"

#include <algorithm>

namespace kerf::compression {

double SecopaCurve::milliseconds(double elements) const {
  double equal = weight == 0 ? 0 : std::max(0.0, (overhead - bias) / weight);
  return elements < equal ? overhead : weight * elements + bias;
}

std::optional<SecopaModel> publishedSecopa(int64_t nodes) {
  SecopaModel model;
  model.nodes = nodes;
  model.encode = {1.4133e-8, 5.8938e-2, 0.05408};
  model.decode = {6.2041e-9, 1.3956e-1, 0.07287};
  model.send = {8.5005e-7, 2.0337e-1, 0.09766};
  if (nodes == 4) {
    model.gather = {2.7156e-6, 4.1930e-1, 0.15573};
    model.broadcast = {2.7157e-6, 2.2156e-1, 0.14820};
  } else if (nodes == 8) {
    model.gather = {6.1167e-6, 8.0768e-1, 0.28778};
    model.broadcast = {6.1172e-6, 2.7285e-1, 0.29666};
  } else if (nodes == 16) {
    model.gather = {1.2937e-5, 1.4406, 0.59503};
    model.broadcast = {1.2915e-5, 4.5538e-1, 0.58353};
  } else {
    return std::nullopt;
  }
  return model;
}

SecopaChoice secopaChoice(const SecopaModel &model, SecopaTopology topology, double elements) {
  auto nodes = static_cast<double>(model.nodes);
  bool ring = topology == SecopaTopology::Ring;
  auto plain = [&](double k) {
    double x = elements / k;
    double messages = ring ? 2 * (nodes - 1) * model.send.milliseconds(x)
                           : model.gather.milliseconds(x) + model.broadcast.milliseconds(x);
    return messages + (nodes - 1) * model.aggregate.milliseconds(x);
  };
  auto coded = [&](double k) {
    double x = elements / k, payload = elements * model.ratio / k;
    double messages = ring ? 2 * (nodes - 1) * model.send.milliseconds(payload)
                           : model.gather.milliseconds(payload) + model.broadcast.milliseconds(payload);
    double encodes = ring ? nodes : std::min(k + 1, nodes);
    double decodes = ring ? nodes : std::min(nodes - 1 + k, 2 * (nodes - 1));
    return messages + encodes * model.encode.milliseconds(x) + decodes * model.decode.milliseconds(payload) +
           (nodes - 1) * model.aggregate.milliseconds(x);
  };
  auto least = [&](auto cost) {
    int64_t best = 1;
    for (int64_t k = 2; k <= model.nodes; ++k)
      if (cost(static_cast<double>(k)) < cost(static_cast<double>(best)))
        best = k;
    return best;
  };
  int64_t plainParts = least(plain), codedParts = least(coded);
  SecopaChoice choice;
  choice.plainMilliseconds = plain(static_cast<double>(plainParts));
  choice.codedMilliseconds = coded(static_cast<double>(codedParts));
  choice.compress = choice.plainMilliseconds > choice.codedMilliseconds;
  choice.partitions = choice.compress ? codedParts : plainParts;
  return choice;
}

} // namespace kerf::compression
