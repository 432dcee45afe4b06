// SPDX-License-Identifier: Apache-2.0
// FLOP counts and kernel classes of ops.
#include "Samples.h"

#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::ir;
using namespace kerf::ir::test;

namespace {

struct WorkRow {
  const char *arguments, *op;
  double flops;
  KernelClass kernelClass;
};

constexpr WorkRow kWorkRows[] = {
    {"%x: tensor<4x8xf32>", "%y = kerf.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>", 32, KernelClass::Pointwise},
    // 2 * b * m * n * k = 2 * 2 * 4 * 16 * 8
    {"%x: tensor<2x4x8xf32>, %y: tensor<16x2x8xf32>",
     "%z = kerf.dot_general %x, %y {lhs_batching = array<i64: 0>, rhs_batching = array<i64: 1>, lhs_contracting = "
     "array<i64: 2>, rhs_contracting = array<i64: 2>}"
     " : (tensor<2x4x8xf32>, tensor<16x2x8xf32>) -> tensor<2x4x16xf32>",
     2048, KernelClass::Product},
    {"%x: tensor<4x8xf32>",
     "%y = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4x8xf32>) -> "
     "tensor<8xf32>",
     32, KernelClass::Reduction},
    {"%x: tensor<4x8xf32>",
     "%y = kerf.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>", 0,
     KernelClass::Movement},
    {"%x: tensor<4x8xf32>", "%y = kerf.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>", 0, KernelClass::Nothing},
    {"", "%y = kerf.constant dense<1.0> : tensor<4x8xf32>", 0, KernelClass::Nothing},
    {"", "%y = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>", 0, KernelClass::Movement},
    {"%x: tensor<9x8xf32>, %i: tensor<4xi64>",
     "%y = kerf.gather %x, %i {axis = 0 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>", 0,
     KernelClass::Gather},
    {"%x: tensor<3x4x8xf32>", "%v, %i = kerf.top_k %x : (tensor<3x4x8xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)",
     96, KernelClass::Reduction},
    // 3 * 4 * 2 choices of 16 elements, but no more than there are slots
    {"%x: tensor<3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>",
     "%y = kerf.dispatch %x, %i, %w {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) "
     "-> tensor<8x3x4x16xf32>",
     384, KernelClass::Gather},
    {"%x: tensor<2x3x1x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>",
     "%y = kerf.combine %x, %i, %w {experts = 2 : i64} : (tensor<2x3x1x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) "
     "-> tensor<3x4x16xf32>",
     192, KernelClass::Gather},
    // 2 * 4 * 10 * 4 results of 3 * 3 weights, whichever of the three tensors is computed
    {"%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>",
     "%y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = "
     "array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>",
     2880, KernelClass::Product},
    {"%x: tensor<4x6x8xf32>, %dy: tensor<4x10x4xf32>",
     "%k = kerf.convolution_kernel %x, %dy {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, "
     "high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<4x10x4xf32>) -> tensor<10x3x3xf32>",
     2880, KernelClass::Product},
    {"%x: tensor<4x8xf32>",
     "%y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, "
     "2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> "
     "tensor<4x4xf32>",
     48, KernelClass::Reduction},
    {"%i: tensor<4xi64>, %u: tensor<4x8xf32>",
     "%y = kerf.scatter_add %i, %u {axis = 0 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<9x8xf32>", 32,
     KernelClass::Gather},
    {"%x: tensor<4x8xf32>, %n: tensor<i64>",
     "%y = kerf.dropout %x, %n, %n, %n {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) "
     "-> tensor<4x8xf32>",
     640, KernelClass::Pointwise},
};

TEST(WorkTest, FlopsAndKernelClasses) {
  Context context;
  for (const WorkRow &row : kWorkRows) {
    SCOPED_TRACE(row.op);
    Sample sample = parseSample(context, row.arguments, row.op);
    ASSERT_TRUE(sample.op);
    auto op = llvm::dyn_cast<WorkOpInterface>(sample.op);
    ASSERT_TRUE(op);
    EXPECT_EQ(op.getFlops(), row.flops);
    EXPECT_EQ(toString(op.getKernelClass()), toString(row.kernelClass));
  }
}

} // namespace
