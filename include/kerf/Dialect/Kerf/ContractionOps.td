// SPDX-License-Identifier: Apache-2.0
// Ops that sum over indices or look elements up.
#ifndef KERF_CONTRACTION_TD
#define KERF_CONTRACTION_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_DotGeneralOp : Kerf_GlobalOp<"dot_general", [Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass", "describe"]>]> {
  let summary = "Product of two tensors over batching and contracting dimensions";
  let description = [{
    The result's dimensions: the batching ones as listed, then the lhs's free ones, then the rhs's free ones, both in operand order.
    Rule: `([b, m, k], [b, k, n]) -> ([b, m, n])  k: reduction(sum)`.
    * As many lhs as rhs batching dimensions, of equal sizes; the same for contracting ones; none named twice.
    * The result's shape is as above; element types agree, but that the sums of 16-bit operands may be given in f32.

    Example:
    ```mlir
    %z = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
        : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$lhs, Kerf_FloatTensor:$rhs, DenseI64ArrayAttr:$lhs_batching, DenseI64ArrayAttr:$rhs_batching,
                       DenseI64ArrayAttr:$lhs_contracting, DenseI64ArrayAttr:$rhs_contracting);
  let results = (outs Kerf_FloatTensor:$result);
  let hasVerifier = 1;
}

def Kerf_ReduceOp : Kerf_GlobalOp<"reduce", [DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>]> {
  let summary = "Sum, maximum or minimum over dimensions";
  let description = [{
    The dimensions of `dimensions` are gone from the result. Rule: they are reductions of `kind`.
    * `dimensions` are strictly increasing and inside the operand's rank; the result's shape follows.
    * Element types agree, but that the sum of a 16-bit operand may be given in f32.

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
  let summary = "Slices of a tensor at indices along one dimension";
  let description = [{
    StableHLO's gather for one index vector component and whole slices (ONNX's Gather): the result has the indices' dimensions in
    place of dimension `axis`: y[a.., t.., c..] = x[a.., indices[t..], c..]. A negative index counts from the end; another outside of the
    size ends the run with a message. The looked-up dimension may not be cut (`embedding` may).
    * `axis` is inside the operand's rank; the result's shape follows.

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
  let summary = "Sums of slices at indices along one dimension: the gradient of gather";
  let description = [{
    y = 0; y[a.., indices[t..], c..] += updates[a.., t.., c..]. Indices are read as `gather` reads them, by the size of the result's dimension
    `axis`. Rule: `([t], [a, t, c]) -> ([a, v, c])  t: reduction(sum)`; v may not be cut.
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
