// SPDX-License-Identifier: Apache-2.0
// Sharding rules of ops that are no composites: they are well-formed and equal the documented ones, in the
// notation of kerf/Sharding/Rule.h.
#include "Samples.h"

#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::ir;
using namespace kerf::ir::test;

namespace {

struct RuleRow {
  const char *name, *arguments, *op, *rule;
};

constexpr RuleRow kRows[] = {
    {"negate", "%x: tensor<4x8xf32>", "%y = kerf.negate %x : (tensor<4x8xf32>) -> tensor<4x8xf32>",
     "([i, j]) -> ([i, j])  sum0: partial(0) -> (0)"},
    {"exponential", "%x: tensor<4x8xf32>", "%y = kerf.exponential %x : (tensor<4x8xf32>) -> tensor<4x8xf32>",
     "([i, j]) -> ([i, j])"},
    {"add", "%x: tensor<4xf32>", "%y = kerf.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
     "([i], [i]) -> ([i])  sum0: partial(0, 1) -> (0)"},
    {"multiply", "%x: tensor<4xf32>", "%y = kerf.multiply %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
     "([i], [i]) -> ([i])  sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"divide", "%x: tensor<4xf32>", "%y = kerf.divide %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
     "([i], [i]) -> ([i])  sum0: partial(0) -> (0)"},
    {"maximum", "%x: tensor<4xf32>", "%y = kerf.maximum %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
     "([i], [i]) -> ([i])"},
    {"convert", "%x: tensor<4xf32>", "%y = kerf.convert %x : (tensor<4xf32>) -> tensor<4xf64>",
     "([i]) -> ([i])  sum0: partial(0) -> (0)"},
    {"compare", "%x: tensor<4xf32>",
     "%y = kerf.compare %x, %x {direction = #kerf<comparison LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
     "([i], [i]) -> ([i])"},
    {"select", "%p: tensor<4xi1>, %x: tensor<4xf32>",
     "%y = kerf.select %p, %x, %x : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
     "([i], [i], [i]) -> ([i])  sum0: partial(1, 2) -> (0)"},

    {"scalar constant", "", "%y = kerf.constant dense<1.0> : tensor<f32>", "() -> ([])"},
    {"splat constant", "", "%y = kerf.constant dense<1.0> : tensor<4x8xf32>", "() -> ([i, j])"},
    {"constant", "", "%y = kerf.constant dense<[1.0, 2.0]> : tensor<2xf32>", "() -> ([i])  i: replicated"},
    {"iota", "", "%y = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>", "() -> ([i, j])"},
    {"iota with an offset", "%o: tensor<i32>",
     "%y = kerf.iota %o {dimension = 1 : i64} : (tensor<i32>) -> tensor<4x8xi32>", "([]) -> ([i, j])"},
    {"broadcast_in_dim of a vector", "%x: tensor<8xf32>",
     "%y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>",
     "([j]) -> ([i, j])  sum0: partial(0) -> (0)"},
    {"broadcast_in_dim of a dimension of size 1", "%x: tensor<4x1xf32>",
     "%y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x8xf32>",
     "([i, 1]) -> ([i, j])  sum0: partial(0) -> (0)"},
    {"reshape", "%x: tensor<8x4xf32>", "%y = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf32>",
     "([ij, k]) -> ([i, jk])  i=2, j=4, k=4, sum0: partial(0) -> (0)"},
    {"transpose", "%x: tensor<2x3x4xf32>",
     "%y = kerf.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>",
     "([i, j, k]) -> ([j, k, i])  sum0: partial(0) -> (0)"},
    {"slice", "%x: tensor<4x8xf32>",
     "%y = kerf.slice %x {start = array<i64: 0, 2>, limit = array<i64: 4, 6>, strides = array<i64: 1, 1>} : "
     "(tensor<4x8xf32>) -> tensor<4x4xf32>",
     "([i, j]) -> ([i, j'])  j: replicated, j': replicated, sum0: partial(0) -> (0)"},
    {"slice of every second", "%x: tensor<4x8xf32>",
     "%y = kerf.slice %x {start = array<i64: 0, 0>, limit = array<i64: 4, 8>, strides = array<i64: 2, 1>} : "
     "(tensor<4x8xf32>) -> tensor<2x8xf32>",
     "([i, j]) -> ([i', j])  i: replicated, i': replicated, sum0: partial(0) -> (0)"},
    {"pad with zeros", "%x: tensor<4x8xf32>",
     "%z = kerf.constant dense<0.0> : tensor<f32>\n"
     "%y = kerf.pad %x, %z {low = array<i64: 1, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : "
     "(tensor<4x8xf32>, tensor<f32>) -> tensor<5x8xf32>",
     "([i, j], []) -> ([i', j])  i: replicated, i': replicated, sum0: partial(0) -> (0)"},
    {"pad with another value", "%x: tensor<4x8xf32>, %z: tensor<f32>",
     "%y = kerf.pad %x, %z {low = array<i64: 0, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 1>} : "
     "(tensor<4x8xf32>, tensor<f32>) -> tensor<4x15xf32>",
     "([i, j], []) -> ([i, j'])  j: replicated, j': replicated"},
    {"concatenate", "%x: tensor<2x8xf32>, %y: tensor<3x8xf32>",
     "%z = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>",
     "([i0, j], [i1, j]) -> ([i, j])  i: replicated, i0: replicated, i1: replicated, sum0: partial(0, 1) -> (0)"},

    {"dot_general", "%x: tensor<4x8xf32>, %y: tensor<8x16xf32>",
     "%z = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: "
     "1>, rhs_contracting = array<i64: 0>}"
     " : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>",
     "([m, k], [k, n]) -> ([m, n])  k: reduction(sum), sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"dot_general over batches, rhs transposed", "%x: tensor<2x4x8xf32>, %y: tensor<16x2x8xf32>",
     "%z = kerf.dot_general %x, %y {lhs_batching = array<i64: 0>, rhs_batching = array<i64: 1>, lhs_contracting = "
     "array<i64: 2>, rhs_contracting = array<i64: 2>}"
     " : (tensor<2x4x8xf32>, tensor<16x2x8xf32>) -> tensor<2x4x16xf32>",
     "([b, m, k], [n, b, k]) -> ([b, m, n])  k: reduction(sum), sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"dot_general with several of each", "%x: tensor<2x3x4x5xf32>, %y: tensor<5x4x6x7xf32>",
     "%z = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: "
     "2, 3>, rhs_contracting = array<i64: 1, 0>}"
     " : (tensor<2x3x4x5xf32>, tensor<5x4x6x7xf32>) -> tensor<2x3x6x7xf32>",
     "([m0, m1, k0, k1], [k1, k0, n0, n1]) -> ([m0, m1, n0, n1])  k0: reduction(sum), k1: reduction(sum), sum0: "
     "partial(0) -> (0), "
     "sum1: partial(1) -> (0)"},
    {"reduce of a sum", "%x: tensor<4x8xf32>",
     "%y = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4x8xf32>) -> "
     "tensor<8xf32>",
     "([r, p]) -> ([p])  r: reduction(sum), sum0: partial(0) -> (0)"},
    {"reduce of a maximum", "%x: tensor<4x8xf32>",
     "%y = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> "
     "tensor<f32>",
     "([r0, r1]) -> ([])  r0: reduction(max), r1: reduction(max)"},
    {"gather", "%x: tensor<5x9x8xf32>, %i: tensor<2x3xi64>",
     "%y = kerf.gather %x, %i {axis = 1 : i64} : (tensor<5x9x8xf32>, tensor<2x3xi64>) -> tensor<5x2x3x8xf32>",
     "([a, v, c], [t0, t1]) -> ([a, t0, t1, c])  v: replicated, sum0: partial(0) -> (0)"},
    {"scatter_add", "%i: tensor<4xi64>, %u: tensor<4x8xf32>",
     "%y = kerf.scatter_add %i, %u {axis = 0 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<9x8xf32>",
     "([t], [t, c]) -> ([v, c])  v: replicated, t: reduction(sum), sum0: partial(1) -> (0)"},

    {"take_along", "%x: tensor<5x9x8xf32>, %i: tensor<5x3xi64>",
     "%y = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 9 : i64} : (tensor<5x9x8xf32>, tensor<5x3xi64>) -> "
     "tensor<5x3x8xf32>",
     "([b0, v, c0], [b0, t0]) -> ([b0, t0, c0])  v: reduction(sum), sum0: partial(0) -> (0)"},
    {"take_along of integers", "%x: tensor<5x9xi64>, %i: tensor<5xi64>",
     "%y = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 9 : i64} : (tensor<5x9xi64>, tensor<5xi64>) -> "
     "tensor<5xi64>",
     "([b0, v], [b0]) -> ([b0])  v: replicated, sum0: partial(0) -> (0)"},
    {"take_along_backward", "%i: tensor<5x3xi64>, %u: tensor<5x3xf32>",
     "%y = kerf.take_along_backward %i, %u {batch_dims = 1 : i64, size = 9 : i64} : (tensor<5x3xi64>, tensor<5x3xf32>) "
     "-> tensor<5x9xf32>",
     "([b0, t0], [b0, t0]) -> ([b0, v])  t0: reduction(sum), sum0: partial(1) -> (0)"},

    {"dropout", "%x: tensor<4x8xf32>, %n: tensor<i64>",
     "%y = kerf.dropout %x, %n, %n, %n {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) "
     "-> tensor<4x8xf32>",
     "([i, j], [], [], []) -> ([i, j])  sum0: partial(0) -> (0)"},
    {"top_k", "%x: tensor<3x4x8xf32>",
     "%v, %i = kerf.top_k %x : (tensor<3x4x8xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)",
     "([i0, i1, v]) -> ([i0, i1, k], [i0, i1, k])  v: replicated, k: replicated"},
    {"top_k_backward", "%i: tensor<4x2xi64>, %g: tensor<4x2xf32>",
     "%y = kerf.top_k_backward %i, %g : (tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x8xf32>",
     "([i0, k], [i0, k]) -> ([i0, v])  v: replicated, k: replicated, sum0: partial(1) -> (0)"},
    {"dispatch", "%x: tensor<3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>",
     "%y = kerf.dispatch %x, %i, %w {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) "
     "-> tensor<8x3x4x16xf32>",
     "([b, s, d], [b, s, k], [b, s, k]) -> ([e, b, c, d])  c: replicated, s: replicated, k: replicated, sum0: "
     "partial(0) -> (0), sum1: partial(2) -> (0)"},
    {"combine of a rank's experts",
     "%x: tensor<4x3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>, %o: tensor<i64>",
     "%y = kerf.combine %x, %i, %w, %o {experts = 8 : i64} : (tensor<4x3x4x16xf32>, tensor<3x4x2xi64>, "
     "tensor<3x4x2xf32>, tensor<i64>) -> tensor<3x4x16xf32>",
     "([e, b, c, d], [b, s, k], [b, s, k], []) -> ([b, s, d])  e: reduction(sum), c: replicated, s: replicated, k: "
     "replicated, sum0: partial(0) -> (0), sum1: partial(2) -> (0)"},
    {"combine_backward", "%x: tensor<8x3x4x16xf32>, %i: tensor<3x4x2xi64>, %t: tensor<3x4x16xf32>",
     "%y = kerf.combine_backward %x, %i, %t {experts = 8 : i64} : (tensor<8x3x4x16xf32>, tensor<3x4x2xi64>, "
     "tensor<3x4x16xf32>) -> tensor<3x4x2xf32>",
     "([e, b, c, d], [b, s, k], [b, s, d]) -> ([b, s, k])  e: reduction(sum), c: replicated, d: reduction(sum), s: "
     "replicated, k: replicated, sum0: partial(0) -> (0), sum1: partial(2) -> (0)"},

    {"convolution", "%x: tensor<4x6x8xf32>, %k: tensor<10x6x3xf32>",
     "%y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = "
     "array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x6x3xf32>) -> tensor<4x10x4xf32>",
     "([n, c, s0], [o, c, w0]) -> ([n, o, t0])  c: reduction(sum), s0: replicated, w0: replicated, t0: replicated, "
     "sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"convolution of groups", "%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>",
     "%y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = "
     "array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>",
     "([n, gc, s0], [go, c, w0]) -> ([n, go, t0])  n=4, g=2, o=5, c=3: reduction(sum), s0=8: replicated, w0=3: "
     "replicated, t0=4: replicated, sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"convolution_transpose", "%y: tensor<4x10x4xf32>, %k: tensor<10x6x3xf32>",
     "%x = kerf.convolution_transpose %y, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, "
     "high = array<i64: 0>} : (tensor<4x10x4xf32>, tensor<10x6x3xf32>) -> tensor<4x6x8xf32>",
     "([n, o, t0], [o, c, w0]) -> ([n, c, s0])  o: reduction(sum), s0: replicated, w0: replicated, t0: replicated, "
     "sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"convolution_kernel", "%x: tensor<4x6x8xf32>, %dy: tensor<4x10x4xf32>",
     "%k = kerf.convolution_kernel %x, %dy {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, "
     "high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<4x10x4xf32>) -> tensor<10x3x3xf32>",
     "([n, gc, s0], [n, go, t0]) -> ([go, c, w0])  n=4: reduction(sum), g=2, o=5, c=3, s0=8: replicated, w0=3: "
     "replicated, t0=4: replicated, sum0: partial(0) -> (0), sum1: partial(1) -> (0)"},
    {"reduce_window of a sum", "%x: tensor<4x8xf32>",
     "%y = kerf.reduce_window %x {kind = #kerf<reduce_kind sum>, window = array<i64: 1, 3>, strides = array<i64: 1, "
     "2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> "
     "tensor<4x4xf32>",
     "([i0, s1]) -> ([i0, t1])  s1: replicated, t1: replicated, sum0: partial(0) -> (0)"},
    {"select_and_scatter", "%x: tensor<4x8xf32>, %dy: tensor<4x4xf32>",
     "%y = kerf.select_and_scatter %x, %dy {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = "
     "array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : "
     "(tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>",
     "([i0, s1], [i0, t1]) -> ([i0, s1])  s1: replicated, t1: replicated, sum0: partial(1) -> (0)"},

    {"sync_gradient", "%x: tensor<8x8xf32>",
     "%y = kerf.sync_gradient %x {parameter = \"w\"} : (tensor<8x8xf32>) -> tensor<8x8xf32>", "([i, j]) -> ([i, j])"},
    {"map", "%p: tensor<8x4xf32>, %lr: tensor<f32>",
     "%y:2 = kerf.map(%p, %lr) : (tensor<8x4xf32>, tensor<f32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {\n"
     "^bb0(%one: tensor<f32>, %rate: tensor<f32>):\n"
     "%next = kerf.multiply %one, %rate : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
     "kerf.yield %next, %one : tensor<f32>, tensor<f32>\n}",
     "([i, j], []) -> ([i, j], [i, j])"},
    {"count_nonfinite", "%x: tensor<8x4xf32>", "%y = kerf.count_nonfinite %x : (tensor<8x4xf32>) -> tensor<i64>",
     "([i, j]) -> ([])  i: reduction(sum), j: reduction(sum)"},
    {"convert of integers", "%x: tensor<8xi64>", "%y = kerf.convert %x : (tensor<8xi64>) -> tensor<8xf32>",
     "([i]) -> ([i])"},
};

TEST(RuleTest, RulesAreWellFormedAndReadAsWritten) {
  Context context;
  for (const RuleRow &row : kRows) {
    SCOPED_TRACE(row.name);
    Sample sample = parseSample(context, row.arguments, row.op);
    ASSERT_TRUE(sample.op);
    auto op = llvm::dyn_cast<ShardingRuleOpInterface>(sample.op);
    ASSERT_TRUE(op);
    Rule rule = op.getShardingRule();
    std::vector<Shape> operands, results;
    for (mlir::Value value : sample.op->getOperands())
      operands.push_back(shapeOf(value));
    for (mlir::Value value : sample.op->getResults())
      results.push_back(shapeOf(value));
    Status status = checkRule(rule, operands, results);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_EQ(toString(rule), row.rule);
  }
}

} // namespace
