// SPDX-License-Identifier: Apache-2.0
// Operations read from descriptors, with checks of their tensors' shapes and types.
#include "CudnnState.h"

#include <algorithm>

namespace kerf::standin::cudnn {

namespace {
constexpr int kInt32 = 4, kTruth = 11;
constexpr int kIndex = 501, kSelect = 601;

/// Returns the tensor's number in the graph, and adds it if it is new. The number is -1 for no tensor, and -2 if two
/// tensors have the same id.
int tensorOf(Graph &graph, std::map<int64_t, Reference> &known, const Reference &descriptor) {
  if (!descriptor)
    return -1;
  Tensor tensor;
  tensor.id = integerOf(*descriptor, 906, 0);
  tensor.type = int(integerOf(*descriptor, 901, 0));
  tensor.dims = integersOf(*descriptor, 902);
  tensor.strides = integersOf(*descriptor, 903);
  tensor.alignment = integerOf(*descriptor, 900, 0);
  tensor.isVirtual = integerOf(*descriptor, 907, 0) != 0;
  tensor.isByValue = integerOf(*descriptor, 908, 0) != 0;
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].id == tensor.id)
      return known[tensor.id] == descriptor ? int(i) : -2;
  known[tensor.id] = descriptor;
  graph.tensors.push_back(tensor);
  return int(graph.tensors.size()) - 1;
}

bool broadcasts(const Tensor &from, const Tensor &to) {
  if (from.dims.size() != to.dims.size())
    return false;
  for (size_t d = 0; d < to.dims.size(); ++d)
    if (from.dims[d] != to.dims[d] && from.dims[d] != 1)
      return false;
  return true;
}

int checkPointwise(const Graph &graph, const Node &node) {
  const Tensor &y = graph.tensors[size_t(node.y)];
  auto fits = [&](int tensor) { return tensor < 0 || broadcasts(graph.tensors[size_t(tensor)], y); };
  bool unary = node.mode == 13 || node.mode == 15 || node.mode == 21 || node.mode == kIndex;
  if (unary != (node.b < 0) || (node.mode == kSelect) != (node.t >= 0))
    return fail(kBadParameter, "a pointwise operation has a wrong number of operands");
  if (!fits(node.a) || !fits(node.b) || !fits(node.t))
    return fail(kShapeMismatch, "an operand of a pointwise operation does not broadcast to the result");
  bool compares = node.mode >= 300 && node.mode < 306;
  if (compares != (y.type == kTruth) || (node.mode == kIndex) != (y.type == kInt32) ||
      (node.t >= 0 && graph.tensors[size_t(node.t)].type != kTruth))
    return fail(kUnsupportedData, "a pointwise operation has tensors of wrong types");
  if (node.mode == kIndex && (node.axis < 0 || node.axis >= int64_t(y.dims.size())))
    return fail(kBadParameter, "the axis of an index is no dimension");
  return kSuccess;
}

int checkMatmul(const Graph &graph, const Node &node) {
  const Tensor &a = graph.tensors[size_t(node.a)], &b = graph.tensors[size_t(node.b)],
               &y = graph.tensors[size_t(node.y)];
  bool fits = a.dims.size() == 4 && b.dims.size() == 4 && y.dims.size() == 4;
  fits = fits && a.dims[0] == y.dims[0] && b.dims[0] == y.dims[0] && a.dims[1] == y.dims[1] &&
         y.dims[1] % b.dims[1] == 0 && a.dims[2] == y.dims[2] && a.dims[3] == b.dims[2] && b.dims[3] == y.dims[3];
  return fits ? int(kSuccess) : fail(kShapeMismatch, "the shapes of a matrix product do not fit");
}

int checkReduction(const Graph &graph, const Node &node) {
  const Tensor &x = graph.tensors[size_t(node.a)], &y = graph.tensors[size_t(node.y)];
  bool fits = x.dims.size() == y.dims.size() && (node.mode == 0 || node.mode == 3);
  for (size_t d = 0; fits && d < x.dims.size(); ++d)
    fits = x.dims[d] % y.dims[d] == 0;
  return fits ? int(kSuccess) : fail(kShapeMismatch, "the shapes of a reduction do not fit");
}

int checkReshape(const Graph &graph, const Node &node) {
  const Tensor &x = graph.tensors[size_t(node.a)], &y = graph.tensors[size_t(node.y)];
  bool fits = x.elements() == y.elements() && x.span() == y.span();
  return fits ? int(kSuccess) : fail(kShapeMismatch, "a reshape is no view of its operand");
}

/// The attributes of the three convolutions: kind, alpha, beta, window, operands a and b, result y.
constexpr int kConvolutions[3][7] = {
    {10, 700, 701, 702, 704, 703, 705}, {11, 712, 713, 714, 716, 717, 715}, {12, 706, 707, 708, 711, 709, 710}};

int checkConvolution(const Graph &graph, const Node &node) {
  // The sample, the kernel and the result of the convolution, of which the operation computes one.
  const Tensor &x = graph.tensors[size_t(node.kind == 12 ? node.y : node.a)];
  const Tensor &w = graph.tensors[size_t(node.kind == 11 ? node.y : node.b)];
  const Tensor &y = graph.tensors[size_t(node.kind == 10 ? node.y : node.kind == 11 ? node.b : node.a)];
  size_t spatial = node.strides.size();
  bool fits = x.dims.size() == spatial + 2 && w.dims.size() == spatial + 2 && y.dims.size() == spatial + 2 &&
              node.dilations.size() == spatial && node.before.size() == spatial && node.after.size() == spatial;
  fits = fits && x.dims[0] == y.dims[0] && w.dims[0] == y.dims[1] && w.dims[1] > 0 && x.dims[1] % w.dims[1] == 0 &&
         y.dims[1] % (x.dims[1] / w.dims[1]) == 0;
  for (size_t d = 0; fits && d < spatial; ++d)
    fits = y.dims[d + 2] == (x.dims[d + 2] + node.before[d] + node.after[d] - (w.dims[d + 2] - 1) * node.dilations[d] -
                             1) / node.strides[d] +
                                1;
  return fits ? int(kSuccess) : fail(kShapeMismatch, "the shapes of a convolution do not fit");
}
} // namespace

int readGraph(const std::vector<Reference> &operations, Graph &graph) {
  std::map<int64_t, Reference> known;
  std::vector<bool> written;
  for (const Reference &one : operations) {
    Node node;
    node.kind = one->kind;
    auto tensor = [&](int attribute) { return tensorOf(graph, known, referenceOf(*one, attribute)); };
    if (node.kind == 13) {
      Reference mode = referenceOf(*one, 750);
      node.mode = int(integerOf(*mode, 0, 0));
      node.axis = integerOf(*mode, 9, -1);
      node.a = tensor(751), node.b = tensor(752), node.t = tensor(758), node.y = tensor(753);
    } else if (node.kind == 19) {
      node.a = tensor(1520), node.b = tensor(1521), node.y = tensor(1522);
    } else if (node.kind == 22) {
      node.mode = int(integerOf(*referenceOf(*one, 1612), 1600, 0));
      node.a = tensor(1610), node.y = tensor(1611);
    } else if (node.kind == 31) {
      node.a = tensor(2200), node.y = tensor(2201);
    }
    for (const auto &[kind, alpha, beta, window, a, b, y] : kConvolutions) {
      if (node.kind != kind)
        continue;
      const Descriptor &settings = *referenceOf(*one, window);
      if (integerOf(settings, 101, 0) != 1)
        return fail(kUnsupportedPattern, "the stand-in has cross-correlations only");
      node.strides = integersOf(settings, 103), node.dilations = integersOf(settings, 102);
      node.before = integersOf(settings, 105), node.after = integersOf(settings, 104);
      node.a = tensor(a), node.b = tensor(b), node.y = tensor(y);
      node.alpha = floatOf(*one, alpha), node.beta = floatOf(*one, beta);
    }
    if (node.a == -2 || node.b == -2 || node.t == -2 || node.y == -2)
      return fail(kBadParameter, "two tensors have the same id");
    written.resize(graph.tensors.size(), false);
    for (int operand : {node.a, node.b, node.t})
      if (operand >= 0 && graph.tensors[size_t(operand)].isVirtual && !written[size_t(operand)])
        return fail(kBadParameter, "an operation reads a virtual tensor that no operation before it writes");
    if (node.y < 0 || written[size_t(node.y)])
      return fail(kBadParameter, "the result of an operation is missing or is written twice");
    written[size_t(node.y)] = true;
    int status = node.kind == 13   ? checkPointwise(graph, node)
                 : node.kind == 19 ? checkMatmul(graph, node)
                 : node.kind == 22 ? checkReduction(graph, node)
                 : node.kind == 31 ? checkReshape(graph, node)
                                   : checkConvolution(graph, node);
    if (status != kSuccess)
      return status;
    graph.nodes.push_back(std::move(node));
  }
  return kSuccess;
}

} // namespace kerf::standin::cudnn
