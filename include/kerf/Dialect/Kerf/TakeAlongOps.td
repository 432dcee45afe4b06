// SPDX-License-Identifier: Apache-2.0
// Ops that look up slices by indices that differ between batch entries. Few sources name these ops, so their C++
// classes are in a header of their own (TakeAlong.h), which keeps the generated header of the other ops smaller.
#ifndef KERF_TAKE_ALONG_TD
#define KERF_TAKE_ALONG_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_TakeAlongOp : Kerf_MovingOp<"take_along", "Gather", [Kerf_PicksElements, Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Looks up slices by indices that differ between batch entries";
  let description = [{
    y[b.., t.., c..] = x[b.., indices[b.., t..] - offset, c..], where b stands for the first `batch_dims` dimensions.
    This is PyTorch's `gather` and `take_along_dim`, `x[arange(n), i]`, ONNX's GatherElements and StableHLO's gather
    with batching dimensions. A negative index counts from the end. An index outside of the dimension ends the run
    with a message.

    Rule: `([b, v, c], [b, t]) -> ([b, t, c])  v: reduction(sum)`: where the looked-up dimension v is sharded, each
    rank gives the elements of its own shard and zeros for all others. v may not be sharded where the elements are
    integers. `size` is the global size of v. `offset` is set at the device level where v is sharded: the index at
    which the rank's shard begins.
    * Operand and indices agree in the first `batch_dims` dimensions. The operand has at least one more dimension. The
      result has the shape that the formula gives.
    * `offset` is a scalar i64. Without `offset` the looked-up dimension has `size` elements.

    Example:
    ```mlir
    %y = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x8xf32>, tensor<9x2xi64>) -> tensor<9x2xf32>
    %z = kerf.take_along %w, %j {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x8x5xf32>, tensor<9xi32>) -> tensor<9x5xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, Kerf_IndexTensor:$indices, Optional<Kerf_IndexTensor>:$offset, I64Attr:$batch_dims,
                       I64Attr:$size);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

def Kerf_TakeAlongBackwardOp : Kerf_GlobalOp<"take_along_backward", [DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>]> {
  let summary = "Gradient of take_along with respect to its operand";
  let description = [{
    dx = 0; dx[b.., indices[b.., t..] - offset, c..] += gradient[b.., t.., c..]. An index outside of the rank's shard
    adds nothing. Rule: `([b, t], [b, t, c]) -> ([b, v, c])  t: reduction(sum)`; v, the looked-up dimension, may be
    sharded too.
    * Every operand and the result has the shape of its counterpart in `take_along`.

    Example:
    ```mlir
    %dx = kerf.take_along_backward %i, %dy {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x2xi64>, tensor<9x2xf32>) -> tensor<9x8xf32>
    ```
  }];
  let arguments = (ins Kerf_IndexTensor:$indices, Kerf_FloatTensor:$gradient, Optional<Kerf_IndexTensor>:$offset, I64Attr:$batch_dims,
                       I64Attr:$size);
  let results = (outs Kerf_FloatTensor:$result);
  let hasVerifier = 1;
}

#endif
