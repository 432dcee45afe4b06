// SPDX-License-Identifier: Apache-2.0
#include "CudnnAttention.h"

#include <limits>

namespace kerf::runtime::cuda {

namespace {
using Dims = std::vector<int64_t>;

/// Adds operations to a graph whose scores have the dimensions [batch, heads, queries, keys].
struct AttentionBuilder {
  CudnnGraph graph;
  AttentionSizes z;
  AttentionSlice slice;
  CudnnData type;
  int64_t sharing = z.h / z.g;            // query heads of a key/value head
  int64_t heads = slice.groups * sharing; // query heads of the slice

  /// Adds the slice of a tensor [batch, rows, all heads, width] of memory, with heads before rows, which are `stride`
  /// elements apart.
  int rows(int64_t count, int64_t heads, int64_t stride, int64_t width) {
    return addTensor(graph, {type, {slice.batches, heads, count, width}, {count * stride, width, stride, 1}});
  }
  /// Adds the slice of a tensor of keys or values, with its rows as columns.
  int columns(int64_t stride, int64_t width) {
    return addTensor(graph, {type, {slice.batches, slice.groups, width, z.t}, {z.t * stride, width, 1, stride}});
  }
  int queries(int64_t stride, int64_t width) { return rows(z.s, heads, stride, width); }
  int outputs() { return queries(z.h * z.e, z.e); }
  int keys(int64_t stride, int64_t width) { return rows(z.t, slice.groups, stride, width); }
  /// Adds the slice of a float32 tensor of memory with one number for each query. Its strides are those of a tensor
  /// without gaps, the only ones that cuDNN reads before version 9.26: a slice of heads has one batch entry.
  int perQuery() {
    GraphTensor tensor{kDataFloat, queryDims(), {heads * z.s, z.s, 1, 1}};
    tensor.alignment = sizeof(float); // slices begin at any query
    return addTensor(graph, std::move(tensor));
  }
  /// Adds the float32 numbers to which the gradients of the slice's queries are added.
  int querySums() {
    return addTensor(graph, {kDataFloat, {slice.batches, heads, z.s, z.d}, {heads * z.s * z.d, z.s * z.d, z.d, 1}});
  }
  /// Adds the slice of the mask as float32 numbers, which lie in scratch memory.
  int mask() {
    Dims dims{z.maskBatch == 0 ? 1 : slice.batches, z.maskHead == 0 ? 1 : heads, z.s, z.t};
    int64_t row = biasColumns(z), head = z.s * row;
    return addTensor(graph, {kDataFloat, dims, {(z.maskHead == 0 ? 1 : z.h) * head, head, row, 1}});
  }
  Dims queryDims() const { return {slice.batches, heads, z.s, 1}; }
  Dims scoreDims() const { return {slice.batches, heads, z.s, z.t}; }

  int pointwise(CudnnPointwise mode, int a, int b, int y, CudnnData compute = kDataFloat) {
    return addNode(graph, {kPointwiseOperation, mode, compute, a, b, -1, y});
  }
  /// Adds a pointwise operation whose result has the dimensions of the scores.
  int ofScores(CudnnPointwise mode, int a, int b = -1) { return pointwise(mode, a, b, addVirtual(graph, scoreDims())); }
  int matmul(int a, int b, int y) { return addNode(graph, {kMatmulOperation, 0, kDataFloat, a, b, -1, y}); }
  int reduce(int mode, int a, int y) { return addNode(graph, {kReductionOperation, mode, kDataFloat, a, -1, -1, y}); }
  int reshape(int a, int y) { return addNode(graph, {kReshapeOperation, 0, kDataFloat, a, -1, -1, y}); }

  /// Adds the product of the queries and the keys, times the scale, plus the bias unless it is -1.
  int scores(int query, int key, int bias) {
    int products = matmul(query, key, addVirtual(graph, scoreDims()));
    int scaled = ofScores(kMultiply, products, addValue(graph, float(z.scale), 4));
    return bias < 0 ? scaled : ofScores(kAdd, scaled, bias);
  }
  /// Adds the causal mask: -infinity where the key comes after the query.
  int causal(int scores) {
    auto index = [&](int64_t axis) {
      return addNode(graph, {kPointwiseOperation, kIndex, kDataInt32, scores, -1, -1,
                             addVirtual(graph, scoreDims(), kDataInt32), axis});
    };
    int row = index(2), column = index(3);
    int attends =
        pointwise(kCompareGreaterEqual, row, column, addVirtual(graph, scoreDims(), kDataBoolean), kDataBoolean);
    return addNode(graph, {kPointwiseOperation, kSelect, kDataFloat, scores,
                           addValue(graph, -std::numeric_limits<float>::infinity(), 4), attends,
                           addVirtual(graph, scoreDims())});
  }
  /// Adds a view of scores with queries and keys exchanged, rounded to the 16-bit type.
  int transposed(int scores) {
    return reshape(
        scores,
        addTensor(graph, {type, {slice.batches, heads, z.t, z.s}, {heads * z.s * z.t, z.s * z.t, 1, z.t}, true}));
  }
  /// Adds the product of transposed scores and a tensor of queries, summed over the query heads of a group. `y` is the
  /// result.
  int gradient(int scores, int queries, int64_t width, int y) {
    if (sharing == 1)
      return matmul(transposed(scores), queries, y);
    return reduce(kReduceAdd,
                  matmul(transposed(scores), queries, addVirtual(graph, {slice.batches, heads, z.t, width}, type)), y);
  }
};
} // namespace

ForwardGraph forwardGraph(const AttentionSizes &z, const AttentionStrides &strides, AttentionSlice slice,
                          CudnnData type) {
  AttentionBuilder b{{}, z, slice, type};
  ForwardGraph all{};
  all.query = b.queries(strides.query, z.d);
  all.key = b.columns(strides.key, z.d);
  all.value = b.keys(strides.value, z.e);
  all.lse = b.perQuery();
  all.out = b.outputs();
  all.bias = z.masked ? b.mask() : -1;
  int scores = b.scores(all.query, all.key, all.bias);
  if (z.causal)
    scores = b.causal(scores);
  int highest = b.reduce(kReduceMax, scores, addVirtual(b.graph, b.queryDims()));
  int exponentials = b.ofScores(kExponential, b.ofScores(kSubtract, scores, highest));
  int sum = b.reduce(kReduceAdd, exponentials, addVirtual(b.graph, b.queryDims()));
  int logarithm = b.pointwise(kLogarithm, sum, -1, addVirtual(b.graph, b.queryDims()));
  b.pointwise(kAdd, highest, logarithm, all.lse);
  int weights = b.pointwise(kDivide, exponentials, sum, addVirtual(b.graph, b.scoreDims(), type));
  b.matmul(weights, all.value, all.out);
  all.graph = std::move(b.graph);
  return all;
}

BackwardGraph backwardGraph(const AttentionSizes &z, const AttentionStrides &strides, const AttentionStrides &gradients,
                            AttentionSlice slice, CudnnData type, QuerySums sums) {
  AttentionBuilder b{{}, z, slice, type};
  BackwardGraph all{};
  all.query = b.queries(strides.query, z.d);
  all.key = b.columns(strides.key, z.d);
  all.value = b.columns(strides.value, z.e);
  all.out = b.outputs();
  all.dOut = b.outputs();
  all.lse = b.perQuery();
  all.dots = b.perQuery();
  all.bias = z.masked ? b.mask() : -1;
  int products = b.pointwise(kMultiply, all.dOut, all.out, addVirtual(b.graph, {slice.batches, b.heads, z.s, z.e}));
  int dots = b.reduce(kReduceAdd, products, addVirtual(b.graph, b.queryDims()));
  b.pointwise(kMultiply, dots, addValue(b.graph, 1, 4), all.dots);
  int scores = b.ofScores(kSubtract, b.scores(all.query, all.key, all.bias), all.lse);
  if (z.causal)
    scores = b.causal(scores);
  int weights = b.ofScores(kExponential, scores);
  all.dValue = b.gradient(weights, all.dOut, z.e, b.keys(gradients.value, z.e));
  int dWeights = b.matmul(all.dOut, all.value, addVirtual(b.graph, b.scoreDims()));
  int slopes = b.ofScores(kMultiply, b.ofScores(kSubtract, dWeights, all.dots), weights);
  int dScores = b.ofScores(kMultiply, slopes, addValue(b.graph, float(z.scale), 4));
  all.dKey = b.gradient(dScores, all.query, z.d, b.keys(gradients.key, z.d));
  int keys = b.reshape(
      all.key,
      addTensor(b.graph,
                {kDataFloat, {slice.batches, slice.groups, z.t, z.d}, {z.t * strides.key, z.d, strides.key, 1}, true}));
  all.dQuery = b.queries(gradients.query, z.d);
  all.sums = sums == QuerySums::Ordered ? -1 : b.querySums();
  b.matmul(dScores, keys, all.sums < 0 ? all.dQuery : all.sums);
  if (all.sums >= 0)
    b.pointwise(kIdentity, all.sums, -1, all.dQuery);
  all.graph = std::move(b.graph);
  return all;
}

static constexpr int64_t kRest = 256; // bytes of workspace that each slice needs, whatever its size

int64_t backwardWorkspace(const AttentionSizes &z, AttentionSlice slice, QuerySums sums) {
  constexpr int64_t kQueryTile = 64, kKeyTile = 128, kBytes = 2, kAlignment = 128;
  auto up = [](int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; };
  int64_t sharing = z.h / z.g, heads = slice.batches * slice.groups * sharing;
  int64_t ofEachHead =
      sharing == 1 ? 0 : up(heads * z.t * z.d * kBytes, kAlignment) + up(heads * z.t * z.e * kBytes, kAlignment);
  int64_t ofScores = sums == QuerySums::Ordered ? heads * up(z.s, kQueryTile) * up(z.t, kKeyTile) * kBytes : 0;
  return ofScores + ofEachHead + kRest;
}

int64_t querySumsBytes(const AttentionSizes &z, AttentionSlice slice, QuerySums sums) {
  int64_t heads = slice.batches * slice.groups * (z.h / z.g);
  return sums == QuerySums::Ordered ? 0 : heads * z.s * z.d * int64_t(sizeof(float));
}

int64_t biasBytes(const AttentionSizes &z, int64_t batches) {
  int64_t heads = (z.maskBatch == 0 ? 1 : batches) * (z.maskHead == 0 ? 1 : z.h);
  return z.masked ? heads * z.s * biasColumns(z) * int64_t(sizeof(float)) : 0;
}

namespace {
/// Makes `count` the largest divisor of `whole` for which `fits` holds, or 1.
template <typename F> void shrink(int64_t &count, int64_t whole, F fits) {
  while (count > 1 && !fits())
    do
      --count;
    while (whole % count != 0);
}
} // namespace

AttentionSlice forwardSlice(const AttentionSizes &z, int64_t mostBytes) {
  AttentionSlice slice{z.b, z.g};
  shrink(slice.batches, z.b, [&] { return biasBytes(z, slice.batches) <= mostBytes; });
  return slice;
}

AttentionSlice backwardSlice(const AttentionSizes &z, int64_t mostBytes, QuerySums sums) {
  AttentionSlice slice{z.b, z.g};
  auto bytes = [&] { return backwardWorkspace(z, slice, sums) - kRest + querySumsBytes(z, slice, sums); };
  shrink(slice.batches, z.b, [&] { return bytes() + biasBytes(z, slice.batches) <= mostBytes; });
  shrink(slice.groups, z.g, [&] { return bytes() <= mostBytes; });
  return slice;
}

} // namespace kerf::runtime::cuda
