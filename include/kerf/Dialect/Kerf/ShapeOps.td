// SPDX-License-Identifier: Apache-2.0
// Ops that make, move or combine whole dimensions. StableHLO's names and semantics.
#ifndef KERF_SHAPE_TD
#define KERF_SHAPE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_ConstantOp : Kerf_MovingOp<"constant", "Nothing", [Kerf_MadeWhereRead, ConstantLike, AllTypesMatch<["value", "result"]>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "A constant tensor";
  let description = [{
    Small: what is larger than 1,024 elements and no splat is an argument of kind "constant", kept outside the IR.
    Rule: a splat may be cut along every dimension, another constant along none.

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

def Kerf_IotaOp : Kerf_MovingOp<"iota", "Movement", [Kerf_MadeWhereRead, DeclareOpInterfaceMethods<ShardingRuleOpInterface,
    ["localize"]>]> {
  let summary = "The index along one dimension";
  let description = [{
    y[..., i, ...] = offset + i along `dimension`. The device level gives the offset of the rank's piece.
    Rule: every dimension may be cut.
    * `dimension` is one of the result's; `offset` is a scalar of the result's element type.

    Example:
    ```mlir
    %y = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>
    ```
  }];
  let arguments = (ins Optional<Kerf_IntTensor>:$offset, I64Attr:$dimension);
  let results = (outs Kerf_IntTensor:$result);
  let hasVerifier = 1;
}

def Kerf_BroadcastInDimOp : Kerf_MovingOp<"broadcast_in_dim", "Pointwise", [Kerf_PicksElements, Kerf_MadeWhereRead,
    Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Copies along new dimensions and along dimensions of size 1";
  let description = [{
    Dimension d of the operand is dimension `broadcast_dimensions[d]` of the result.
    Rule: `([j]) -> ([i, j])`; a dimension that the copies make may be cut.
    * One entry a dimension of the operand, strictly increasing, inside the result's rank.
    * An operand dimension has the size of its result dimension, or 1.

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

def Kerf_ReshapeOp : Kerf_MovingOp<"reshape", "Nothing", [Kerf_SameValue, Kerf_PicksElements, Kerf_MadeWhereRead,
    Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    Rule: `([ij, k]) -> ([i, jk])`, the parts into which the two shapes cut each other.
    * The numbers of elements and the element types are equal.

    Example:
    ```mlir
    %y = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_TransposeOp : Kerf_MovingOp<"transpose", "Movement", [Kerf_SameValue, Kerf_PicksElements, Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Dimensions in another order";
  let description = [{
    Dimension d of the result is dimension `permutation[d]` of the operand. Rule: `([i, j]) -> ([j, i])`.
    * `permutation` is a permutation of the operand's dimensions; the result's shape follows.

    Example:
    ```mlir
    %y = kerf.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_SliceOp : Kerf_MovingOp<"slice", "Movement", [Kerf_PicksElements, Kerf_MadeWhereRead, Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "A strided box of a tensor";
  let description = [{
    y[i] = x[start + i * stride], along each dimension up to `limit` (exclusive). Rule: a dimension that is taken whole may be cut.
    * One start, limit and stride a dimension; 0 <= start <= limit <= size, stride >= 1; the result has ceil((limit - start) / stride).

    Example:
    ```mlir
    %y = kerf.slice %x {start = array<i64: 0, 2>, limit = array<i64: 4, 6>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, DenseI64ArrayAttr:$start, DenseI64ArrayAttr:$limit, DenseI64ArrayAttr:$strides);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kerf_PadOp : Kerf_MovingOp<"pad", "Movement", [Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "A tensor with a border, and gaps between elements";
  let description = [{
    `low` and `high` elements of `padding_value` before and after each dimension, `interior` between neighbours.
    Rule: a dimension that stays as it is may be cut; a partial sum passes where `padding_value` is the constant zero.
    * One entry each a dimension; none negative; `padding_value` is a scalar of the operand's element type.

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
  let summary = "Tensors one after the other along a dimension";
  let description = [{
    Rule: all other dimensions pass through, `dimension` may not be cut.
    * At least one operand; ranks, element types and all other dimensions agree; the sizes along `dimension` add up.

    Example:
    ```mlir
    %z = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$inputs, I64Attr:$dimension);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

#endif
