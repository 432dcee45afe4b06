// SPDX-License-Identifier: Apache-2.0
// The graphs that the stand-in computes, and the engines that it proposes for them. cuDNN takes attention only as
// exactly these operations; engines that Kerf must not choose come first.
#include "CudnnState.h"

#include <algorithm>
#include <cstdlib>

namespace kerf::standin::cudnn {

namespace {
constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
constexpr int kPointwise = 13, kMatmul = 19, kReduction = 22, kReshape = 31;
// Engines in the order of the proposals. The first one has the number of the engine of cuDNN 9.19 that computes wrong
// gradients of kernels where padding is uneven; it is proposed for these only.
constexpr int64_t kWrongForUneven = 1, kNondeterministic = 2, kHungry = 3, kTensorCores = 4, kPlain = 5;

using Kinds = std::vector<std::pair<int, int>>; // kind and mode of the operations, sorted

Kinds kindsOf(const Graph &graph) {
  Kinds kinds;
  for (const Node &node : graph.nodes)
    kinds.push_back({node.kind, node.mode});
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}
Kinds sorted(Kinds kinds) {
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}
Kinds with(Kinds kinds, const Kinds &more) {
  kinds.insert(kinds.end(), more.begin(), more.end());
  return sorted(kinds);
}

const Kinds kCausal = {{kPointwise, 501}, {kPointwise, 501}, {kPointwise, 303}, {kPointwise, 601}};
const Kinds kForward = {{kMatmul, 0},     {kMatmul, 0},    {kPointwise, 1},  {kReduction, 3}, {kPointwise, 9},
                        {kPointwise, 13}, {kReduction, 0}, {kPointwise, 15}, {kPointwise, 0}, {kPointwise, 6}};
const Kinds kBackward = {{kMatmul, 0},     {kMatmul, 0},    {kMatmul, 0},    {kMatmul, 0},    {kMatmul, 0},
                         {kPointwise, 1},  {kReduction, 0}, {kPointwise, 1}, {kPointwise, 1}, {kPointwise, 9},
                         {kPointwise, 13}, {kPointwise, 9}, {kPointwise, 1}, {kPointwise, 1}, {kReshape, 0},
                         {kReshape, 0},    {kReshape, 0}};
const Kinds kUnordered = {{kPointwise, 21}};              // the gradients of queries are sums in memory, then copied
const Kinds kBias = {{kPointwise, 0}};                    // numbers that are added to the scores
const Kinds kGroups = {{kReduction, 0}, {kReduction, 0}}; // sums over the query heads of a group

bool isConvolution(const Graph &graph) {
  return graph.nodes.size() == 1 && graph.nodes[0].kind >= 10 && graph.nodes[0].kind <= 12;
}
bool readsFloats(const Graph &graph) {
  return isConvolution(graph) && graph.tensors[size_t(graph.nodes[0].a)].type == kFloat;
}
/// Whether tiles of keys add to the gradients of queries in an order that changes from run to run.
bool isUnordered(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node &node) { return node.kind == kPointwise && node.mode == 21; });
}
bool isUnevenKernelGradient(const Graph &graph) {
  return isConvolution(graph) && graph.nodes[0].kind == 11 && graph.nodes[0].before != graph.nodes[0].after;
}
bool isBackward(const Graph &graph) { return graph.nodes.size() > 1 && graph.nodes[0].kind == kPointwise; }

/// Checks the widths and types of attention's tensors in memory.
int checkAttention(const Graph &graph) {
  for (const Node &node : graph.nodes) {
    if (node.kind != kMatmul)
      continue;
    for (int number : {node.a, node.b}) {
      const Tensor &tensor = graph.tensors[size_t(number)];
      if (tensor.isVirtual)
        continue;
      if (tensor.type != kHalf && tensor.type != kBfloat16)
        return fail(kUnsupportedData, "attention multiplies 16-bit tensors");
      // One of the dimensions lies without gaps, and it is the width of the vectors.
      int64_t width = tensor.strides[3] == 1 ? tensor.dims[3] : tensor.strides[2] == 1 ? tensor.dims[2] : 0;
      if (width == 0 || width % 8 != 0 || width > 256)
        return fail(kUnsupportedShape, "attention takes vectors of up to 256 elements, in steps of 8");
    }
  }
  return kSuccess;
}
} // namespace

int checkPattern(const Graph &graph) {
  if (isConvolution(graph))
    return kSuccess;
  Kinds kinds = kindsOf(graph);
  for (const Kinds &causal : {Kinds(), kCausal})
    for (const Kinds &mask : {causal, with(causal, kBias)}) {
      if (kinds == with(kForward, mask))
        return checkAttention(graph);
      for (const Kinds &backward : {with(kBackward, mask), with(with(kBackward, mask), kUnordered)})
        if (kinds == backward || kinds == with(backward, kGroups))
          return checkAttention(graph);
    }
  return fail(kUnsupportedPattern, "the graph is neither attention nor its gradients nor a convolution");
}

std::vector<int64_t> enginesOf(const Graph &graph) {
  const char *wish = std::getenv("KERF_STANDIN_CUDNN");
  if (wish && std::string(wish) == "none")
    return {};
  std::vector<int64_t> engines;
  if (isUnevenKernelGradient(graph))
    engines.push_back(kWrongForUneven);
  engines.insert(engines.end(), {kHungry, kNondeterministic, kTensorCores});
  if (readsFloats(graph))
    engines.push_back(kPlain);
  return engines;
}

std::vector<int> notesOf(const Graph &, int64_t engine) {
  if (engine == kNondeterministic)
    return {0, 4};
  return engine == kTensorCores || engine == kHungry ? std::vector<int>{0} : std::vector<int>();
}

int64_t workspaceOf(const Graph &graph, int64_t engine) {
  if (engine == kHungry)
    return int64_t(1) << 50;
  if (!isBackward(graph))
    return isConvolution(graph) ? 4096 : 256;
  // The gradients of the scores in 16 bits, in tiles of 64 queries and 128 keys, and those of each query head's keys
  // and values where these are summed afterwards.
  int64_t bytes = 256;
  bool counted = false;
  for (const Node &node : graph.nodes) {
    const Tensor &y = graph.tensors[size_t(node.y)];
    if (node.kind == kReshape && graph.tensors[size_t(node.a)].isVirtual && !counted && !isUnordered(graph)) {
      bytes += y.dims[0] * y.dims[1] * ((y.dims[2] + 127) / 128 * 128) * ((y.dims[3] + 63) / 64 * 64) * 2;
      counted = true;
    }
    if (node.kind == kReduction && !y.isVirtual)
      bytes += (graph.tensors[size_t(node.a)].elements() * 2 + 127) / 128 * 128;
  }
  return bytes;
}

bool mayRun(const Graph &graph, int64_t engine) {
  const char *wish = std::getenv("KERF_STANDIN_CUDNN");
  bool sameBits = wish && std::string(wish) == "deterministic";
  if (sameBits && (engine == kNondeterministic || isUnordered(graph)))
    return false;
  return engine == (readsFloats(graph) ? kPlain : kTensorCores) || (engine == kNondeterministic && !readsFloats(graph));
}

} // namespace kerf::standin::cudnn
