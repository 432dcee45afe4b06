// SPDX-License-Identifier: Apache-2.0
// Ops that sum over dimensions (products, reductions) or look elements up by index (gather, scatter_add).
#ifndef KERF_CONTRACTION_TD
#define KERF_CONTRACTION_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_DotGeneralOp : Kerf_GlobalOp<"dot_general", [Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass", "describe"]>]> {
  let summary = "Multiplies two tensors over batching and contracting dimensions";
  let description = [{
    The dimensions of the result are the batching ones in the order listed, then the remaining ones of lhs, then the
    remaining ones of rhs, both in operand order. Rule: `([b, m, k], [b, k, n]) -> ([b, m, n])  k: reduction(sum)`.
    Where a mesh axis shards k, each rank has a partial sum of the result.
    * lhs and rhs list equally many batching dimensions, of equal sizes, and equally many contracting dimensions, of
      equal sizes. No dimension is listed twice.
    * The result has the shape described above. All element types agree, except that the result of 16-bit operands may
      be f32.
    * Factors may also be 8-bit floats that `kerf.quantize` made. Then `magnitudes` has two scalars, the magnitudes with
      which lhs and rhs were quantized, and the product is multiplied by the scales of both factors, magnitude /
      largest number of the format. The result is bf16, f16 or f32. At most one factor is f8E5M2.

    Example:
    ```mlir
    %z = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
        : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Kerf_FactorTensor:$lhs, Kerf_FactorTensor:$rhs, Variadic<Kerf_FloatTensor>:$magnitudes, DenseI64ArrayAttr:$lhs_batching,
                       DenseI64ArrayAttr:$rhs_batching, DenseI64ArrayAttr:$lhs_contracting, DenseI64ArrayAttr:$rhs_contracting);
  let results = (outs Kerf_FloatTensor:$result);
  let hasVerifier = 1;
}

def Kerf_ReduceOp : Kerf_GlobalOp<"reduce", [DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>]> {
  let summary = "Reduces dimensions by sum, maximum or minimum";
  let description = [{
    The result lacks the dimensions listed in `dimensions`, which are combined by `kind`. Rule: each reduced dimension
    is a reduction factor of this `kind`, so that sharding the dimension leaves partial results; every other dimension
    may be sharded.
    * `dimensions` is strictly increasing and lies within the operand's rank. The result has the remaining dimensions.
    * Element types agree, except that the sum of a 16-bit operand may be f32.

    Example:
    ```mlir
    %y = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, Kerf_ReduceKindAttr:$kind, DenseI64ArrayAttr:$dimensions);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

def Kerf_GatherOp : Kerf_MovingOp<"gather", "Gather", [Kerf_PicksElements, Kerf_In16Bits<"Rows">,
    DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Gathers slices of a tensor by index along one dimension";
  let description = [{
    The result has the dimensions of `indices` in place of dimension `axis` of the operand: y[a.., t.., c..] = x[a..,
    indices[t..], c..]. This is ONNX's Gather, and StableHLO's gather with index vectors of one component and slices
    that are complete in all other dimensions. A negative index counts from the end. An index outside of the dimension
    ends the run with a message. The dimension `axis` may not be sharded (`kerf.embedding` has a rule for a sharded
    table).
    * `axis` lies within the operand's rank. The result has the shape that the formula gives.

    Example:
    ```mlir
    %y = kerf.gather %x, %i {axis = 0 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, Kerf_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

def Kerf_ScatterAddOp : Kerf_GlobalOp<"scatter_add", [DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>]> {
  let summary = "Adds slices into a zero tensor by index along one dimension (gradient of gather)";
  let description = [{
    y = 0; y[a.., indices[t..], c..] += updates[a.., t.., c..]. Indices are interpreted as by `kerf.gather`, for the
    size of dimension `axis` of the result. Rule: `([t], [a, t, c]) -> ([a, v, c])  t: reduction(sum)`; v may not be
    sharded.
    * The shapes are those of a `gather` with operand and result exchanged.

    Example:
    ```mlir
    %y = kerf.scatter_add %i, %u {axis = 0 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<9x8xf32>
    ```
  }];
  let arguments = (ins Kerf_IndexTensor:$indices, Kerf_FloatTensor:$updates, I64Attr:$axis);
  let results = (outs Kerf_FloatTensor:$result);
  let hasVerifier = 1;
}

#endif
