// SPDX-License-Identifier: Apache-2.0
// Ops that create, rearrange or combine tensors without arithmetic on their elements. Names and
// semantics are StableHLO's.
#ifndef KERF_SHAPE_TD
#define KERF_SHAPE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_ConstantOp : Kerf_MovingOp<"constant", "Nothing", [Kerf_FusesIntoUsers, ConstantLike, AllTypesMatch<["value", "result"]>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "A constant tensor";
  let description = [{
    The value is stored in the IR, so it is small. An exported constant of more than 1,024 elements that are not all
    equal becomes an argument of kind "constant" instead, whose elements are stored outside of the IR. Rule: a
    constant with equal elements may be sharded along every dimension, any other constant along none.

    Example:
    ```mlir
    %c = kerf.constant dense<1.0> : tensor<f32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Kerf_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Kerf_IotaOp : Kerf_MovingOp<"iota", "Movement", [Kerf_FusesIntoUsers, DeclareOpInterfaceMethods<ShardingRuleOpInterface,
    ["localize"]>]> {
  let summary = "A tensor that holds each element's index along one dimension";
  let description = [{
    y[..., i, ...] = offset + i along `dimension`. `offset` is absent (0) on whole tensors; at the device level
    `offset` is the global index at which the rank's shard begins. Rule: every dimension may be sharded.
    * `dimension` is a dimension of the result. `offset` is a scalar of the result's element type.

    Example:
    ```mlir
    %y = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>
    ```
  }];
  let arguments = (ins Optional<Kerf_IntTensor>:$offset, I64Attr:$dimension);
  let results = (outs Kerf_IntTensor:$result);
  let hasVerifier = 1;
}

def Kerf_BroadcastInDimOp : Kerf_MovingOp<"broadcast_in_dim", "Pointwise", [Kerf_PicksElements, Kerf_FusesIntoUsers,
    Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Copies a tensor along new dimensions and along dimensions of size 1";
  let description = [{
    Dimension d of the operand becomes dimension `broadcast_dimensions[d]` of the result. Rule: `([j]) -> ([i, j])`;
    i, a dimension that exists only in the result, may be sharded too.
    * `broadcast_dimensions` has an entry for each dimension of the operand, is strictly increasing and lies within
      the result's rank.
    * Each dimension of the operand has the size of its dimension in the result, or size 1.

    Example:
    ```mlir
    %y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, DenseI64ArrayAttr:$broadcast_dimensions);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_ReshapeOp : Kerf_MovingOp<"reshape", "Nothing", [Kerf_SameValue, Kerf_PicksElements, Kerf_FusesIntoUsers,
    Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Gives the elements, in row-major order, another shape";
  let description = [{
    Rule: `([ij, k]) -> ([i, jk])`. The factors of the rule are the parts into which the borders of both shapes divide
    the dimensions, so that a sharding survives a reshape that splits or merges dimensions.
    * Both shapes have the same number of elements. Element types are equal.

    Example:
    ```mlir
    %y = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_TransposeOp : Kerf_MovingOp<"transpose", "Movement", [Kerf_SameValue, Kerf_PicksElements, Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Permutes the dimensions of a tensor";
  let description = [{
    Dimension d of the result is dimension `permutation[d]` of the operand. Rule: `([i, j]) -> ([j, i])`.
    * `permutation` is a permutation of the operand's dimensions. The result has the permuted shape.

    Example:
    ```mlir
    %y = kerf.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_SliceOp : Kerf_MovingOp<"slice", "Movement", [Kerf_PicksElements, Kerf_FusesIntoUsers, Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Extracts a strided box of a tensor";
  let description = [{
    y[i] = x[start + i * stride], along each dimension up to `limit` (exclusive). Rule: a dimension that the slice
    takes completely may be sharded, no other one.
    * `start`, `limit` and `strides` have an entry for each dimension, with 0 <= start <= limit <= size and stride >=
      1. The result's size is ceil((limit - start) / stride).

    Example:
    ```mlir
    %y = kerf.slice %x {start = array<i64: 0, 2>, limit = array<i64: 4, 6>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand, DenseI64ArrayAttr:$start, DenseI64ArrayAttr:$limit, DenseI64ArrayAttr:$strides);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_PadOp : Kerf_MovingOp<"pad", "Movement", [Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Pads a tensor at its borders and between its elements";
  let description = [{
    Along each dimension there are `low` elements of `padding_value` before the operand, `high` elements after the
    operand, and `interior` elements between neighbours. Rule: a dimension that gets no padding may be sharded. A
    partial sum may pass through the op where `padding_value` is the constant zero.
    * `low`, `high` and `interior` have an entry for each dimension; no entry is negative. `padding_value` is a scalar
      of the operand's element type.

    Example:
    ```mlir
    %y = kerf.pad %x, %zero {low = array<i64: 0, 1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x9xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, Kerf_Tensor:$padding_value, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$interior);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

def Kerf_ConcatenateOp : Kerf_MovingOp<"concatenate", "Movement", [Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Concatenates tensors along a dimension";
  let description = [{
    Rule: every dimension but `dimension` may be sharded.
    * There is at least one operand. Ranks, element types and all dimensions but `dimension` agree. The result's size
      along `dimension` is the sum of the operands' sizes.

    Example:
    ```mlir
    %z = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Kerf_MovedTensor>:$inputs, I64Attr:$dimension);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
}

#endif
