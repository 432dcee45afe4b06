// SPDX-License-Identifier: Apache-2.0
// Random backward passes for the tests of the planner.
#pragma once

#include "kerf/Compression/Planner.h"

#include <random>

namespace kerf::compression {

/// The machines of a test: CPU cores on nodes with a network of `gigabits` Gbit/s between them.
struct TestMachines {
  int64_t nodes = 4, perNode = 1;
  double gigabits = 1;
  double innerBandwidth = 5e9;
  SyncNetwork network() const {
    double bandwidth = gigabits * 1e9 / 8;
    return linkNetwork(nodes, perNode, {innerBandwidth, 2e-6}, {bandwidth, 30e-6}, bandwidth);
  }
};

inline CodecCurve curveOnCore(const CodecRecord &codec) { return coreCurve(codec, 1); }

/// Returns a backward pass of layers with one gradient each; `shapes` has one entry for each layer, in the order of the
/// pass. A layer runs for `secondsPerElement` times its elements.
inline PlanProblem problemOf(const std::vector<std::vector<int64_t>> &shapes, double secondsPerElement,
                             const SyncNetwork &network, const CodecLimits &limits, double bucketBytes = 0) {
  PlanProblem problem;
  problem.rules.bucketBytes = bucketBytes;
  for (const std::vector<int64_t> &shape : shapes) {
    PlanGradient gradient;
    auto elements = static_cast<double>(elementsOf(shape));
    gradient.gradient.shape = shape;
    gradient.gradient.elementsTogether = bucketBytes / 4;
    gradient.bytes = 4 * elements;
    gradient.layer = problem.layers.size();
    gradient.name = "layer" + std::to_string(gradient.layer);
    gradient.options = {plainOption(gradient.gradient, network)};
    if (!excludedByDefault(shape))
      gradient.options = withoutBeaten(allOptions(gradient.gradient, network, limits, curveOnCore));
    StreamLayer layer;
    layer.body = secondsPerElement * elements;
    problem.layers.push_back(layer);
    problem.gradients.push_back(std::move(gradient));
  }
  return problem;
}

/// Returns `count` shapes between 2^12 and 2^24 elements, some of them vectors.
inline std::vector<std::vector<int64_t>> randomShapes(std::mt19937 &random, int count) {
  std::vector<std::vector<int64_t>> shapes;
  for (int i = 0; i < count; ++i) {
    int64_t rows = int64_t(1) << std::uniform_int_distribution(6, 12)(random);
    int64_t columns = int64_t(1) << std::uniform_int_distribution(6, 12)(random);
    if (std::uniform_int_distribution(0, 4)(random) == 0)
      shapes.push_back({rows});
    else
      shapes.push_back({rows, columns});
  }
  return shapes;
}

inline CodecLimits limitsOf(std::initializer_list<const char *> names) {
  CodecLimits limits;
  for (const char *name : names)
    limits.codecs.push_back(findCodec(name));
  return limits;
}

} // namespace kerf::compression
