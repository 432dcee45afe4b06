// SPDX-License-Identifier: Apache-2.0
// A layer has 34 nodes: 12 forward ops, 6 weights, 16 backward ops. A strategy states what each of the two mesh axes
// cuts. Costs are picoseconds, computed from flops and from bytes over links. Weights and their optimizer states always
// occupy memory, activations from their forward to their backward.
#include "TransformerProblem.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

using namespace kerf;
using namespace kerf::benchmarks;

namespace {

constexpr int kAxes = 2;
constexpr std::array<double, kAxes> kAxisSize = {8, 4};
constexpr std::array<double, kAxes> kLinkBytesPerSecond = {25e9, 300e9}; // between hosts, inside a host
constexpr double kLinkLatencySeconds = 10e-6;
constexpr double kFlopsPerSecond = 150e12;
constexpr double kMemoryBytesPerSecond = 1.5e12;
constexpr double kPicosecondsPerSecond = 1e12;
// Relative variation of a kernel's seconds, because real ones differ from layer to layer.
constexpr double kJitter = 0.1;
constexpr int kNodesPerLayer = 34;

constexpr double kTokens = 8 * 2048, kSequence = 2048, kHidden = 4096, kInner = 4 * kHidden;
constexpr double kActivationBytes = 2; // bytes of one element
// bytes of one weight: the weight, its gradient and two optimizer moments of 4 bytes each
constexpr double kStateBytes = 16;

/// The dimension that an axis cuts: tokens, output features or input features of an op; columns or rows of a weight.
enum Cut { None, Tokens, Out, In };
/// The placement of a tensor along an axis.
enum Lay { Whole, ByTokens, ByFeatures, ByRows };
using Layout = std::array<Lay, kAxes>;

enum class Kind { Product, Pointwise, Weight };
/// A tensor as an op uses it: the placement that the op requires or produces, for each cut.
using View = std::array<Lay, 4>;
//                          None   Tokens    Out         In
constexpr View kOperand = {Whole, ByTokens, Whole, ByFeatures};
constexpr View kResult = {Whole, ByTokens, ByFeatures, Whole};
constexpr View kWeightOfForward = {Whole, Whole, ByFeatures, ByRows};
constexpr View kWeightOfBackward = {Whole, Whole, ByRows, ByFeatures}; // the product with the transposed weight
constexpr View kGradientOfWeight = {Whole, Whole, ByFeatures, ByRows};
constexpr View kPointwise = {Whole, ByTokens, ByFeatures, ByFeatures};

struct Tensor {
  int node;
  View view;
  double bytes;
};

class Builder {
public:
  Builder(int nodes, uint64_t seed) : tables(problem.tables), random(seed) {
    layers = std::max(1, static_cast<int>(std::lround(static_cast<double>(nodes) / kNodesPerLayer)));
    momentsOfForward = layers * 12;
  }

  Problem run(double limitOverLeast) {
    std::vector<Layer> all(layers);
    Tensor stream{-1, kResult, 0};
    for (Layer &layer : all)
      stream = forward(layer, stream);
    Tensor gradient{-1, kResult, 0};
    for (int i = layers - 1; i >= 0; --i)
      gradient = backward(all[i], gradient);
    for (const auto &[node, bytes] : states)
      live(node, 0, moment + 1, bytes, kWeightOfForward);
    problem.memoryLimitBytes = static_cast<int64_t>(limitOverLeast * static_cast<double>(leastPeak()));
    problem.name = "transformer of " + std::to_string(layers) + " layers";
    return std::move(problem);
  }

private:
  struct Layer {
    Tensor input, norm1, q, k, v, attention, o, add1, norm2, up, act;
    Tensor weights[6];
  };

  std::vector<std::array<Cut, kAxes>> cutsOf(Kind kind) const {
    std::vector<Cut> each = kind == Kind::Product  ? std::vector{None, Tokens, Out, In}
                            : kind == Kind::Weight ? std::vector{None, Out, In}
                                                   : std::vector{None, Tokens, Out};
    std::vector<std::array<Cut, kAxes>> all;
    for (Cut first : each)
      for (Cut second : each)
        all.push_back({first, second});
    return all;
  }

  static Layout layoutOf(const View &view, const std::array<Cut, kAxes> &cuts) {
    return {view[cuts[0]], view[cuts[1]]};
  }

  static double shards(const Layout &layout) {
    double shards = 1;
    for (int axis = 0; axis < kAxes; ++axis)
      shards *= layout[axis] == Whole ? 1 : kAxisSize[axis];
    return shards;
  }

  /// Returns the cost of a reshard, axis by axis: slices are free, gathers and exchanges cost the bytes they receive.
  static double reshardSeconds(double bytes, Layout from, const Layout &to) {
    double seconds = 0;
    for (int axis = 0; axis < kAxes; ++axis) {
      if (from[axis] == to[axis])
        continue;
      bool slice = from[axis] == Whole;
      Layout after = from;
      after[axis] = to[axis];
      if (!slice)
        seconds += kLinkLatencySeconds + bytes / shards(after) * (1 - 1 / kAxisSize[axis]) / kLinkBytesPerSecond[axis];
      from = after;
    }
    return seconds;
  }

  int node(const std::string &name, Kind kind, double flops, double resultBytes, Cut contracted = In) {
    ProblemNode made{name, {}};
    double jitter = 1 + kJitter * std::uniform_real_distribution(-1.0, 1.0)(random);
    for (const auto &cuts : cutsOf(kind)) {
      double parts = 1, resultParts = 1, seconds = 0;
      for (int axis = 0; axis < kAxes; ++axis) {
        parts *= cuts[axis] == None ? 1 : kAxisSize[axis];
        resultParts *= cuts[axis] == None || cuts[axis] == contracted ? 1 : kAxisSize[axis];
      }
      if (kind != Kind::Weight)
        seconds = jitter * (flops / kFlopsPerSecond + 3 * resultBytes / kMemoryBytesPerSecond) / parts;
      for (int axis = 0; axis < kAxes && kind == Kind::Product; ++axis)
        if (cuts[axis] == contracted) // partial sums are combined by an all-reduce
          seconds += kLinkLatencySeconds +
                     2 * resultBytes / resultParts * (1 - 1 / kAxisSize[axis]) / kLinkBytesPerSecond[axis];
      made.costs.push_back(static_cast<Cost>(std::llround(seconds * kPicosecondsPerSecond)));
    }
    kinds.push_back(kind);
    problem.nodes.push_back(std::move(made));
    return static_cast<int>(problem.nodes.size()) - 1;
  }

  /// Adds an edge: `node` reads `tensor` in the placement `view`.
  void read(const Tensor &tensor, int node, const View &view) {
    if (tensor.node < 0)
      return;
    std::vector<Cost> table;
    for (const auto &from : cutsOf(kinds[tensor.node]))
      for (const auto &to : cutsOf(kinds[node]))
        table.push_back(static_cast<Cost>(std::llround(
            kPicosecondsPerSecond * reshardSeconds(tensor.bytes, layoutOf(tensor.view, from), layoutOf(view, to)))));
    problem.edges.push_back({tensor.node, node, tables.add(table)});
  }

  void live(int node, int64_t begin, int64_t end, double bytes, const View &view) {
    MemoryUsage usage{node, {{begin, end}}, {}};
    for (const auto &cuts : cutsOf(kinds[node]))
      usage.bytes.push_back(static_cast<int64_t>(bytes / shards(layoutOf(view, cuts))));
    problem.usages.push_back(std::move(usage));
  }

  /// Keeps the activations of a forward op in memory until its backward.
  Tensor kept(int node, const View &view, double features) {
    double bytes = kTokens * features * kActivationBytes;
    live(node, moment, 2 * momentsOfForward - moment, bytes, view);
    ++moment;
    return {node, view, bytes};
  }
  Tensor passing(int node, const View &view, double features) {
    double bytes = kTokens * features * kActivationBytes;
    live(node, moment, moment + 2, bytes, view);
    return {node, view, bytes};
  }

  Tensor product(const std::string &name, Layer &layer, int weight, const Tensor &input, double in, double out) {
    int stored = node(name + ".weight", Kind::Weight, 0, 0);
    layer.weights[weight] = {stored, kWeightOfForward, in * out * kActivationBytes};
    states.emplace_back(stored, in * out * kStateBytes);
    int made = node(name, Kind::Product, 2 * kTokens * in * out, kTokens * out * kActivationBytes);
    read(input, made, kOperand);
    read(layer.weights[weight], made, kWeightOfForward);
    return kept(made, kResult, out);
  }
  Tensor pointwise(const std::string &name, const std::vector<Tensor> &inputs, double features, double flops = 0) {
    int made = node(name, Kind::Pointwise, flops, kTokens * features * kActivationBytes);
    for (const Tensor &input : inputs)
      read(input, made, kPointwise);
    return kept(made, kPointwise, features);
  }

  Tensor forward(Layer &layer, const Tensor &stream) {
    layer.input = stream;
    layer.norm1 = pointwise("norm1", {stream}, kHidden);
    layer.q = product("q", layer, 0, layer.norm1, kHidden, kHidden);
    layer.k = product("k", layer, 1, layer.norm1, kHidden, kHidden);
    layer.v = product("v", layer, 2, layer.norm1, kHidden, kHidden);
    layer.attention = pointwise("attention", {layer.q, layer.k, layer.v}, kHidden, 4 * kTokens * kSequence * kHidden);
    layer.o = product("o", layer, 3, layer.attention, kHidden, kHidden);
    layer.add1 = pointwise("add1", {layer.o, stream}, kHidden);
    layer.norm2 = pointwise("norm2", {layer.add1}, kHidden);
    layer.up = product("up", layer, 4, layer.norm2, kHidden, kInner);
    layer.act = pointwise("act", {layer.up}, kInner);
    Tensor down = product("down", layer, 5, layer.act, kInner, kHidden);
    return pointwise("add2", {down, layer.add1}, kHidden);
  }

  /// Adds the gradients of a product's operand and of its weight; the weight's gradient is moved to the placement of
  /// the weight.
  Tensor productBackward(const std::string &name, const Layer &layer, int weight, const Tensor &gradient,
                         const Tensor &input, double in, double out) {
    int ofOperand = node(name + ".dx", Kind::Product, 2 * kTokens * in * out, kTokens * in * kActivationBytes);
    read(gradient, ofOperand, kOperand);
    read(layer.weights[weight], ofOperand, kWeightOfBackward);
    Tensor result = passing(ofOperand, kResult, in);
    int ofWeight = node(name + ".dw", Kind::Product, 2 * kTokens * in * out, in * out * kActivationBytes, Tokens);
    read(input, ofWeight, kOperand);
    read(gradient, ofWeight, kResult);
    read({ofWeight, kGradientOfWeight, in * out * kActivationBytes}, layer.weights[weight].node, kWeightOfForward);
    ++moment;
    return result;
  }
  Tensor pointwiseBackward(const std::string &name, const std::vector<Tensor> &inputs, double features,
                           double flops = 0) {
    int made = node(name, Kind::Pointwise, flops, kTokens * features * kActivationBytes);
    for (const Tensor &input : inputs)
      read(input, made, kPointwise);
    Tensor result = passing(made, kPointwise, features);
    ++moment;
    return result;
  }

  Tensor backward(const Layer &layer, const Tensor &gradient) {
    Tensor down = productBackward("down", layer, 5, gradient, layer.act, kInner, kHidden);
    Tensor act = pointwiseBackward("act.dx", {down, layer.up}, kInner);
    Tensor up = productBackward("up", layer, 4, act, layer.norm2, kHidden, kInner);
    Tensor norm2 = pointwiseBackward("norm2.dx", {up, layer.add1}, kHidden);
    Tensor sum1 = pointwiseBackward("sum1", {norm2, gradient}, kHidden);
    Tensor o = productBackward("o", layer, 3, sum1, layer.attention, kHidden, kHidden);
    Tensor attention =
        pointwiseBackward("attention.dx", {o, layer.q, layer.k, layer.v}, kHidden, 8 * kTokens * kSequence * kHidden);
    Tensor q = productBackward("q", layer, 0, attention, layer.norm1, kHidden, kHidden);
    Tensor k = productBackward("k", layer, 1, attention, layer.norm1, kHidden, kHidden);
    Tensor v = productBackward("v", layer, 2, attention, layer.norm1, kHidden, kHidden);
    Tensor norm1 = pointwiseBackward("norm1.dx", {q, k, v, layer.input}, kHidden);
    return pointwiseBackward("sum0", {norm1, sum1}, kHidden);
  }

  /// Returns the peak memory if every node has its smallest usage; each node has one strategy that is smallest
  /// at all times.
  int64_t leastPeak() const {
    std::map<int64_t, int64_t> changes;
    for (const MemoryUsage &usage : problem.usages) {
      int64_t bytes = *std::min_element(usage.bytes.begin(), usage.bytes.end());
      changes[usage.live[0].begin] += bytes;
      changes[usage.live[0].end] -= bytes;
    }
    int64_t now = 0, peak = 0;
    for (const auto &[at, change] : changes)
      peak = std::max(peak, now += change);
    return peak;
  }

  int layers = 0;
  int64_t momentsOfForward = 0, moment = 0;
  Problem problem;
  TableSet tables;
  std::vector<Kind> kinds;
  std::vector<std::pair<int, double>> states; // node, bytes
  std::mt19937_64 random;
};

} // namespace

Problem kerf::benchmarks::transformerProblem(int nodes, double limitOverLeast, uint64_t seed) {
  return Builder(nodes, seed).run(limitOverLeast);
}
